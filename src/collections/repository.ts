import { IdList } from '../hotels/id-list.ts';
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

/** Reads collections from PostgreSQL. All methods throw `Unavailable`. */
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
    const [row] = await this.#origin.rows<{ count: number }>(
      `select count(*)::float8 as count from ${MEMBERS}`,
      [collection],
    );
    return row!.count;
  }

  /** Returns at most `limit` members after `mark` ('': from the start) in byte order. */
  membersAfter(collection: string, mark: string, limit: number): Promise<string[]> {
    return this.#ids(`${MEMBERS} and hotel_id collate "C" > $2 order by hotel_id collate "C" limit $3`, [
      collection,
      mark,
      limit,
    ]);
  }

  /** Returns the members among the ids, in any order. */
  membersAmong(collection: string, ids: readonly string[]): Promise<string[]> {
    return this.#ids(`${MEMBERS} and hotel_id = any($2::text[])`, [collection, ids]);
  }

  async #ids(from: string, parameters: unknown[]): Promise<string[]> {
    const rows = await this.#origin.rows<{ id: string }>(`select hotel_id as id from ${from}`, parameters);
    return rows.map(({ id }) => id);
  }
}
