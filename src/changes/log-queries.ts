import { HOTEL_COLUMNS } from '../hotels/row.ts';
import { SERVER } from '../postgres/origin.ts';

/** Maximum number of changes of a page. */
export const MAX_CHANGES = 1000;
/** Maximum number of ids in a row of the log and of the queue. */
const MAX_IDS_OF_ROW = 1000;
/** Rows of the queue beyond which a query reads no more, and states that there are more. */
const MAX_QUEUED = 2000;
/** True or null. A subquery with a limit is not planned as a join or a hash, which would read the whole table. */
const trueIfAny = (from: string) => `(select true from ${from} limit 1)`;

const isMember = (collection: string, id: string) =>
  trueIfAny(`collection_hotels where collection_id = ${collection} and hotel_id = ${id}`);

/** Members without their collection are hidden. They are there after a write for which foreign keys were off. */
const isOrphaned = (collection: string) =>
  `(${trueIfAny(`collections where id = ${collection}`)} is null
    and ${trueIfAny(`collection_hotels where collection_id = ${collection}`)} is not null)`;

const isVisible = (collection: string, id: string) =>
  `${trueIfAny(`collections where id = ${collection}`)} and ${isMember(collection, id)}`;

/** The newest row of the log; the queue behind it, as far as this snapshot shows it. */
const LOG = `newest as materialized (
    select position, transaction, (state).* from hotel_api_log order by position desc limit 1
  ), queue as materialized (
    select queued.*
    from newest, hotel_api_ranges(snapshot, pg_current_snapshot()) as finished, lateral (
      select kind, ids, collection_id from hotel_api_queue where transaction between low and high
      order by transaction, number limit ${MAX_QUEUED}
    ) as queued
    limit ${MAX_QUEUED}
  )`;

/** Kinds of the changes of anything that a key sees. */
const allOf = (collection: string | null) =>
  collection === null ? `'all_hotels'` : `'all_hotels', 'all_collections'`;

/** State of the log in JSON, for a token at `position` of the key of a collection, if it has one. */
function stateOf(position: string, collection: string | null, more = ''): string {
  const members = collection === null ? 'false' : `kind = 'members' and collection_id = ${collection}`;
  return `select json_build_object(
      'history', history, 'position', position, 'transaction', transaction::text,
      'oldest', ${collection === null ? 'oldest' : 'greatest(oldest, oldest_of_collections)'},
      'day', to_char(day, 'YYYY-MM-DD'), 'isListing', cardinality(pending) > 0 or flips_after is not null,
      'isQueued', (select count(*) = ${MAX_QUEUED} or coalesce(bool_or(kind in ('hotels', ${allOf(collection)}) or ${members}), false) from queue),
      'isOrphaned', ${collection === null ? 'false' : isOrphaned(collection)},
      'transactionOfToken', (select transaction::text from hotel_api_log where position >= ${position} order by position limit 1),
      'server', ${SERVER}${more}
    )::text as state
    from newest`;
}

/**
 * $1: a position, $2: the maximum number of changes, $3: the collection, if any. Positions are dense, and a row of the log
 * has at most 1000: the range below has at least $2 of them. The page has the hotels of the range that the key may see
 * or could see before, each at its first position; behind the end of the log those of the queue. A hotel missing in
 * `hotels` is gone.
 */
export function changesQuery(collection: '$3' | null): string {
  const range = `position > $1::bigint and position <= $1::bigint + $2::integer + ${MAX_IDS_OF_ROW - 1}`;
  const isOfKey = (kinds: string) =>
    collection === null
      ? `kind in (${kinds})`
      : `(kind in (${kinds}) or kind = 'members' and collection_id = ${collection})`;
  const ofKey =
    collection === null ? '' : `having bool_or(kind = 'members') or ${isVisible(collection, 'id')}`;
  const more = `,
      'isCut', (select count(*) from queued) >= $2
        or (select count(*) = ${MAX_QUEUED} or coalesce(bool_or(kind in (${allOf(collection)})), false) from queue),
      'readTo', (select json_build_object('position', position, 'transaction', transaction::text) from last_of_range)`;
  return `with ${LOG}, page as materialized (
      select id, min(array[id_position, transaction]) as first
      from (
        select id, position - cardinality(ids) + number as id_position, transaction, kind
        from hotel_api_log, unnest(ids) with ordinality as changed (id, number)
        where ${range} and ${isOfKey(`'hotels', 'listed'`)}
      ) as changed
      where id_position > $1::bigint
      group by id ${ofKey} order by first limit $2
    ), last_of_range as materialized (
      select position, transaction from hotel_api_log where ${range} order by position desc limit 1
    ), queued as materialized (
      select id, kind from queue, unnest(ids) as id
      where ${isOfKey(`'hotels'`)} and (select count(*) from page) < $2
        and not exists (select from newest, last_of_range where last_of_range.position < newest.position)
      limit $2
    )
    select state, change.id as changed_id, change.first[1]::float8 as log_position,
      change.first[2]::text as log_transaction, hotel.*
    from (${stateOf('$1::bigint', collection, more)}) as state
    left join (
      select id, first from page
      union all
      select id, null::bigint[] from queued where id not in (select id from page) group by id ${ofKey}
    ) as change on true
    left join lateral (
      select ${HOTEL_COLUMNS} from hotels
      where id = change.id ${collection === null ? '' : `and ${isVisible(collection, 'change.id')}`} limit 1
    ) as hotel on true`;
}

/**
 * $1: the position of the token, or null, $2: the maximum number of hotels, $3: an id, $4: the collection, if any. Returns the
 * hotels with ids after $3.
 */
export function walkQuery(collection: '$4' | null): string {
  const hotels =
    collection === null
      ? `select id as changed_id, ${HOTEL_COLUMNS} from hotels where id collate "C" > $3 order by id collate "C"`
      : // ranges of one index: with an equality, PostgreSQL without statistics expects few members, and reads and sorts all
        `select hotel_id as changed_id, hotel.*
        from collection_hotels, lateral (select ${HOTEL_COLUMNS} from hotels where id = hotel_id limit 1) as hotel
        where (collection_id, hotel_id collate "C") > (${collection}, $3) and collection_id <= ${collection}
          and ${trueIfAny(`collections where id = ${collection}`)}
        order by collection_id, hotel_id collate "C"`;
  return `with ${LOG}
    select state, hotel.*
    from (${stateOf('$1::bigint', collection)}) as state
    left join (
      -- PostgreSQL would read whole tables for a parameter alone
      select * from (${hotels} limit ${MAX_CHANGES + 1}) as first_rows limit $2
    ) as hotel on true
    order by changed_id collate "C"`;
}
