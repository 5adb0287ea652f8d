import type { Postgres } from '../postgres/client.ts';
import type { Replicas } from '../postgres/replicas.ts';

/** The hotels that a key of the collection $1 sees: ids that are its members, and that hotels carry. */
const VISIBLE = `collection_hotels as member where collection_id = $1
  and exists (select from collections where id = $1) and exists (select from hotels where id = member.hotel_id)`;

/** Collections of hotels in PostgreSQL. All methods throw `Unavailable`. */
export class CollectionRepository {
  readonly #postgres: Postgres | Replicas;

  constructor(postgres: Postgres | Replicas) {
    this.#postgres = postgres;
  }

  /** Those of the ids whose hotels exist and are in the collection, in any order. */
  async visibleAmong(collection: string, ids: readonly string[], owner?: string): Promise<string[]> {
    const rows = await this.#postgres.rows<{ id: string }>(
      `select hotel_id as id from ${VISIBLE} and hotel_id = any($2::text[])`,
      [collection, ids],
      owner,
    );
    return rows.map(({ id }) => id);
  }

  /** Ids of hotels in the collection, ordered by their bytes, after passing `skip` of them. */
  async idsFrom(collection: string, skip: number, limit: number, owner?: string): Promise<string[]> {
    const rows = await this.#postgres.rows<{ id: string }>(
      `select hotel_id as id from ${VISIBLE} order by hotel_id collate "C" offset $2 limit $3`,
      [collection, skip, limit],
      owner,
    );
    return rows.map(({ id }) => id);
  }
}
