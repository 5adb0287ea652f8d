import { IdList, unknown } from '../hotels/id-list.ts';
import type { Origin } from '../postgres/origin.ts';

/**
 * Query of the members of the collection $1. In sessions without foreign keys, members may outlive their collection.
 */
const MEMBERS = `collection_hotels as member where collection_id = $1
  and exists (select from collections where id = $1)`;

/** The hotels in the collection $1. */
const HOTELS = `(
    select hotel_id as id from ${MEMBERS} and exists (select from hotels where id = hotel_id)
  ) as hotel`;

/** Selects the ids that a hotel has now, if it exists. The limit keeps PostgreSQL from reading the whole table. */
const IDS_OF_HOTEL = `(select channel_id, registry_id::text from hotels where id = asked.id limit 1) as hotel`;

/** A hotel with the ids that it has now, and whether it is in the collection. */
export interface Membership {
  id: string;
  channel_id: string | null;
  registry_id: string | null;
  is_member: boolean;
}

/** Reads collections from PostgreSQL. Queries throw `Unavailable`. */
export class CollectionRepository {
  readonly #origin: Origin;

  constructor(origin: Origin) {
    this.#origin = origin;
  }

  listOf(collection: string): IdList {
    return new IdList(this.#origin, HOTELS, [collection]);
  }

  /** Counts the members, whether or not these hotels exist. */
  async count(collection: string): Promise<number> {
    const text = `select count(*)::float8 as count from ${MEMBERS}`;
    const [row] = await this.#rows<{ count: number }>(text, [collection]);
    return row!.count;
  }

  /** Returns at most `limit` members after `mark` ('': from the start) in byte order. */
  membersAfter(collection: string, mark: string, limit: number): Promise<Membership[]> {
    return this.#rows(
      `select asked.id, hotel.*, true as is_member from (
        select hotel_id as id from ${MEMBERS} and hotel_id collate "C" > $2
        order by hotel_id collate "C" limit ${unknown('$3')}
      ) as asked left join lateral ${IDS_OF_HOTEL} on true order by asked.id collate "C"`,
      [collection, mark, limit],
    );
  }

  /** Returns the state of these hotels, in any order. */
  membershipOf(collection: string, ids: readonly string[], owner = ''): Promise<Membership[]> {
    return this.#rows(
      `select asked.id, hotel.*,
        (select true from ${MEMBERS} and hotel_id = asked.id limit 1) is not null as is_member
      from unnest($2::text[]) as asked (id) left join lateral ${IDS_OF_HOTEL} on true`,
      [collection, ids],
      owner,
    );
  }

  #rows<Row = Membership>(text: string, parameters: unknown[], owner = ''): Promise<Row[]> {
    return this.#origin.rows<Row>(text, parameters, owner, 'members');
  }
}
