import { Unavailable } from '../errors.ts';
import { encodeHotel } from '../hotels/encode.ts';
import type { Entry } from '../hotels/entry.ts';
import { HOTEL_COLUMNS, type HotelRow } from '../hotels/row.ts';
import type { Postgres } from '../postgres/client.ts';
import type { Token } from './token.ts';

/** Maximum number of changes of a page. */
export const MAX_CHANGES = 1000;
/** A literal in the queries: PostgreSQL plans for a known limit, and would read whole tables for a parameter. */
const MAX_ROWS = MAX_CHANGES + 1;
/** Rows of a page that one event-loop iteration reads and encodes, in 2 ms: a page of the default limit and one more. */
const ROWS_AT_ONCE = 101;

/** State of the change log in the snapshot of a page. */
export interface LogState {
  history: string;
  /** position of the last change */
  position: number;
  /** position from which the log is complete */
  oldest: number;
  /** committed changes of hotels have no position yet */
  isQueued: boolean;
  /** one of them is a TRUNCATE */
  isTruncated: boolean;
  /** the collection has members but does not exist */
  isOrphaned: boolean;
}

/** A hotel in its present state; null: deleted. */
export interface Change {
  id: string;
  hotel: Entry | null;
}

/** Changes in the order of their positions. */
interface LogPage {
  state: LogState;
  changes: Change[];
  /** positions of `changes` */
  positions: number[];
  /** changes without a position, in their present state too */
  queued: Change[];
  /** number of scanned changes, those outside of the collection included */
  scanned: number;
  /** the queue holds more changes than were read */
  isCut: boolean;
  /** position of the last scanned change */
  scannedTo: number;
}

/** Hotels in the order of their ids. */
interface WalkPage {
  state: LogState;
  hotels: Change[];
}

const stateQuery = (
  oldest: string,
  kinds: string,
  truncations: string,
  isOrphaned: string,
) => `select concat_ws(
    ' ', feed.history, log.position, ${oldest}, to_char(log.day, 'YYYY-MM-DD'),
    (exists (select from hotel_api_changes where kind in (${kinds}, ${truncations})))::integer,
    (exists (select from hotel_api_changes where kind in (${truncations})))::integer, (${isOrphaned})::integer
  ) as words
  from hotel_api_change_log_state as log, hotel_api_feed_position as feed`;

const STATE = stateQuery('log.oldest', "'hotels', 'hotels_removed'", "'hotels_truncated'", 'false');

/**
 * Members without their collection are hidden. They are there after a write for which foreign keys were off, and their
 * appearance or disappearance is in no log.
 */
const isOrphaned = (collection: string) =>
  `not exists (select from collections where id = ${collection})
    and exists (select from collection_hotels where collection_id = ${collection})`;

/** The same for a key of the collection $3, whose log of memberships may be complete from a later position on. */
const STATE_OF_COLLECTIONS = stateQuery(
  'greatest(log.oldest, log.oldest_of_collections)',
  "'hotels', 'hotels_removed', 'members'",
  "'hotels_truncated', 'collections_truncated'",
  isOrphaned('$3'),
);

/** The log compares its ids in byte order, the table of hotels as its database does. */
const LOGGED_ID = 'id collate "default" as id';

/**
 * $1: a position, $2: the maximum number of changes. A hotel missing in `hotels` is deleted. The queue counts where
 * the log ends.
 */
const CHANGES_AFTER = `with page as materialized (
    select id, position from (
      select ${LOGGED_ID}, position from hotel_api_change_log where position > $1::bigint order by position limit ${MAX_ROWS}
    ) as first_rows
    order by position limit $2
  ), queued as (
    select unnest(ids) as id from hotel_api_changes
    where kind in ('hotels', 'hotels_removed') and (select count(*) from page) < $2
    limit $2
  )
  select state.words, (select count(*) from queued) >= $2 as is_cut, change.changed_id,
    change.position::float8 as log_position, hotel.*
  from (${STATE}) as state
  left join (
    select id as changed_id, position from page
    union all
    select distinct id, null::bigint from queued where id not in (select id from page)
  ) as change on true
  left join lateral (select ${HOTEL_COLUMNS} from hotels where id = change.changed_id limit 1) as hotel on true
  order by change.position nulls last`;

/** $1: an id, $2: the maximum number of hotels. */
const HOTELS_AFTER = `select state.words, hotel.*
  from (${STATE}) as state
  left join (
    select * from (
      select ${HOTEL_COLUMNS} from hotels where id collate "C" > $1 order by id collate "C" limit ${MAX_ROWS}
    ) as first_rows
    order by id collate "C" limit $2
  ) as hotel on true
  order by hotel.id collate "C"`;

/** $3: the collection, whose members are returned as far as they exist. */
const IS_MEMBER = `exists (select from collections where id = $3)
  and exists (select from collection_hotels where collection_id = $3 and hotel_id = `;

/**
 * The same for a key of the collection $3. Changes of hotels outside are scanned and marked: `is_visible` is false. A
 * change of membership is returned, whatever the state of the hotel.
 */
const CHANGES_OF_COLLECTION = `with page as materialized (
    select id, position, of_members from (
      (
        select hotel_id as id, position, true as of_members from hotel_api_member_log
        where collection_id = $3 and position > $1::bigint order by position limit ${MAX_ROWS}
      )
      union all
      (
        select ${LOGGED_ID}, position, false from hotel_api_change_log where position > $1::bigint order by position limit ${MAX_ROWS}
      )
    ) as first_rows
    order by position limit $2
  ), queued as (
    select unnest(ids) as id, kind = 'members' as of_members from hotel_api_changes
    where (kind in ('hotels', 'hotels_removed') or kind = 'members' and collection_id = $3)
      and (select count(*) from page) < $2
    limit $2
  )
  select state.words, (select count(*) from queued) >= $2 as is_cut, change.changed_id,
    change.position::float8 as log_position, change.of_members or member.found as is_visible, hotel.*
  from (${STATE_OF_COLLECTIONS}) as state
  left join (
    select id as changed_id, position, of_members from page
    union all
    select id, null::bigint, bool_or(of_members) from queued group by id
  ) as change on true
  left join lateral (select ${IS_MEMBER}change.changed_id) as found) as member on true
  left join lateral (
    select ${HOTEL_COLUMNS} from hotels where member.found and id = change.changed_id limit 1
  ) as hotel on true
  order by change.position nulls last`;

/** The same for a key of the collection $3. */
const HOTELS_OF_COLLECTION = `select state.words, hotel.*
  from (${STATE_OF_COLLECTIONS}) as state
  left join (
    select * from (
      select ${HOTEL_COLUMNS} from collection_hotels join hotels on id = hotel_id
      where collection_id = $3 and exists (select from collections where id = $3) and hotel_id collate "C" > $1
      order by hotel_id collate "C" limit ${MAX_ROWS}
    ) as first_rows
    order by id collate "C" limit $2
  ) as hotel on true
  order by hotel.id collate "C"`;

/**
 * Of the mirrors of collections ($1: collections, $2: positions, $3: whether orphaned) returns those that changes
 * after their positions concern, by number. A hotel that changed concerns the collections that it is in; more changes
 * than a page concern all.
 */
const AFFECTED = `with changed as materialized (
    select id, position from (
      select ${LOGGED_ID}, position from hotel_api_change_log where position > (select min(position) from unnest($2::bigint[]) as position)
      order by position limit ${MAX_ROWS}
    ) as first_rows
  )
  select state.words, array(
    select mirror.number from unnest($1::text[], $2::bigint[], $3::text[]) with ordinality
      as mirror (collection, position, is_orphaned, number)
    where (select count(*) from changed) = ${MAX_ROWS}
      or mirror.is_orphaned::boolean <> (${isOrphaned('mirror.collection')})
      or exists (
        select from hotel_api_member_log as member
        where member.collection_id = mirror.collection and member.position > mirror.position
      )
      or exists (
        select from changed where changed.position > mirror.position and exists (
          select from collection_hotels where collection_id = mirror.collection and hotel_id = changed.id
        )
      )
  )::text[] as affected
  from (${STATE_OF_COLLECTIONS.replaceAll('$3', 'null')}) as state`;

type Row = { words: string } & (HotelRow | { id: null });
type ChangeRow = Row & {
  changed_id: string | null;
  log_position: number | null;
  is_cut: boolean;
  is_visible?: boolean;
};

/**
 * Reads the change log in PostgreSQL. Rows of hotels and of the log come from one snapshot, so a hotel is at least as
 * new as its position.
 */
export class ChangeLog {
  readonly #postgres: Postgres;

  /** Uses the primary: a replica may lack a change that another one has already returned. */
  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  /** Reads at most `limit` changes after `position`. Throws `Unavailable`. */
  async changesAfter(
    position: number,
    limit: number,
    owner: string,
    collection: string | null,
  ): Promise<LogPage> {
    const found: Omit<LogPage, 'state'> = {
      ...{ changes: [], positions: [], queued: [] },
      ...{ scanned: 0, scannedTo: position, isCut: false },
    };
    const text = collection === null ? CHANGES_AFTER : CHANGES_OF_COLLECTION;
    const state = await this.#read<ChangeRow>(text, position, limit, collection, owner, (row, dayMs) => {
      found.isCut = row.is_cut;
      if (row.changed_id === null) return;
      if (row.log_position !== null) {
        found.scanned++;
        found.scannedTo = row.log_position;
      }
      if (row.is_visible === false) return;
      const change = { id: row.changed_id, hotel: row.id === null ? null : encodeHotel(row, dayMs) };
      if (row.log_position === null) found.queued.push(change);
      else {
        found.changes.push(change);
        found.positions.push(row.log_position);
      }
    });
    return { state, ...found };
  }

  /**
   * Returns the collections among those of the tokens that changes after the tokens concern, and the state up to which
   * none concerns the others. Throws `Unavailable`.
   */
  async affected(tokens: Token[]): Promise<{ state: LogState; affected: Token[] }> {
    const parameters = [
      tokens.map(({ collection }) => collection),
      tokens.map(({ position }) => String(position)),
      tokens.map((token) => String(token.isOrphaned)),
    ];
    const rows = await this.#postgres.rows<Row & { affected: string[] }>(AFFECTED, parameters, '', 'changes');
    const { state } = stateOf(rows);
    const numbers = new Set(rows[0]!.affected.map(Number));
    const isPast = ({ history, position }: Token) => history !== state.history || position < state.oldest;
    return { state, affected: tokens.filter((token, i) => numbers.has(i + 1) || isPast(token)) };
  }

  /** Reads at most `limit` hotels with ids after `id`, in byte order. Throws `Unavailable`. */
  async hotelsAfter(id: string, limit: number, owner: string, collection: string | null): Promise<WalkPage> {
    const hotels: Change[] = [];
    const text = collection === null ? HOTELS_AFTER : HOTELS_OF_COLLECTION;
    const state = await this.#read<Row>(text, id, limit, collection, owner, (row, dayMs) => {
      if (row.id !== null) hotels.push({ id: row.id, hotel: encodeHotel(row, dayMs) });
    });
    return { state, hotels };
  }

  /**
   * Passes on the rows of a page after `from`; `dayMs` as in `stateOf`. Returns the state.
   */
  async #read<R extends Row>(
    text: string,
    from: number | string,
    limit: number,
    collection: string | null,
    owner: string,
    take: (row: R, dayMs: number) => void,
  ): Promise<LogState> {
    const all = collection === null ? [from, limit] : [from, limit, collection];
    let read: ReturnType<typeof stateOf> | undefined;
    const takeAll = (rows: R[]) => {
      read ??= stateOf(rows);
      for (const row of rows) take(row, read.dayMs);
    };
    // portions cost a round trip more
    if (limit <= ROWS_AT_ONCE) takeAll(await this.#postgres.rows<R>(text, all, owner, 'changes'));
    else await this.#postgres.portions(text, all, ROWS_AT_ONCE, takeAll, owner, 'changes');
    return (read ?? stateOf([])).state;
  }
}

/** `dayMs`: beginning of the day (epoch ms) that decides about `certified`. */
function stateOf(rows: Row[]): { state: LogState; dayMs: number } {
  if (rows.length === 0) throw new Unavailable('the change log has no state');
  const [history, position, oldest, day, isQueued, isTruncated, orphaned] = rows[0]!.words.split(' ');
  const state = {
    history: history!,
    position: Number(position),
    oldest: Number(oldest),
    isQueued: isQueued === '1',
    isTruncated: isTruncated === '1',
    isOrphaned: orphaned === '1',
  };
  return { state, dayMs: Date.parse(day!) };
}
