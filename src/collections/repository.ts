import type { Postgres } from '../postgres/client.ts';
import type { Replicas } from '../postgres/replicas.ts';
import { CollectionIds } from './collection-ids.ts';

/** The members of the collection $1. In sessions without foreign keys, members may outlive their collection. */
const MEMBERS = `collection_hotels as member where collection_id = $1
  and exists (select from collections where id = $1)`;

/** Collections of hotels in PostgreSQL. All methods throw `Unavailable`. */
export class CollectionRepository {
  readonly #postgres: Postgres | Replicas;

  constructor(postgres: Postgres | Replicas) {
    this.#postgres = postgres;
  }

  /** The list of the hotels in the collection. */
  listOf(collection: string): CollectionIds {
    return new CollectionIds(this.#postgres, collection);
  }

  /** How many members the collection has, whether or not these hotels exist. */
  async count(collection: string): Promise<number> {
    const [row] = await this.#postgres.rows<{ count: number }>(
      `select count(*)::float8 as count from ${MEMBERS}`,
      [collection],
    );
    return row!.count;
  }

  /** Members whose ids stand after `mark` ('': from the start) in the order of their bytes, at most `limit`. */
  membersAfter(collection: string, mark: string, limit: number): Promise<string[]> {
    return this.#ids(
      `${MEMBERS} and hotel_id collate "C" > $2 order by hotel_id collate "C" limit $3`,
      [collection, mark, limit],
      '',
    );
  }

  /** Those of the ids that are members, in any order. */
  membersAmong(collection: string, ids: readonly string[], owner = ''): Promise<string[]> {
    return this.#ids(`${MEMBERS} and hotel_id = any($2::text[])`, [collection, ids], owner);
  }

  /** Ids of the hotels in the collection, ordered by their bytes, after passing `skip` of them. */
  idsFrom(collection: string, skip: number, limit: number, owner: string): Promise<string[]> {
    return this.#ids(
      `${MEMBERS} and exists (select from hotels where id = hotel_id) order by hotel_id collate "C" offset $2 limit $3`,
      [collection, skip, limit],
      owner,
    );
  }

  async #ids(from: string, parameters: unknown[], owner: string): Promise<string[]> {
    const text = `select hotel_id as id from ${from}`;
    const rows = await this.#postgres.rows<{ id: string }>(text, parameters, owner);
    return rows.map(({ id }) => id);
  }
}
