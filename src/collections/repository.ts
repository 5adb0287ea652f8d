import type { Lane, Postgres } from '../postgres/client.ts';
import type { Replicas } from '../postgres/replicas.ts';
import { CollectionIds } from './collection-ids.ts';

/**
 * Query of the members of the collection $1. In sessions without foreign keys, members may outlive their collection.
 */
const MEMBERS = `collection_hotels as member where collection_id = $1
  and exists (select from collections where id = $1)`;

/** Reads collections from PostgreSQL. All methods throw `Unavailable`. */
export class CollectionRepository {
  readonly #postgres: Postgres | Replicas;

  constructor(postgres: Postgres | Replicas) {
    this.#postgres = postgres;
  }

  /** Returns the list of the hotels in the collection. */
  listOf(collection: string): CollectionIds {
    return new CollectionIds(this.#postgres, collection);
  }

  /** Counts the members, whether or not these hotels exist. */
  async count(collection: string): Promise<number> {
    const [row] = await this.#postgres.rows<{ count: number }>(
      `select count(*)::float8 as count from ${MEMBERS}`,
      [collection],
    );
    return row!.count;
  }

  /** Returns at most `limit` members after `mark` ('': from the start) in byte order. */
  membersAfter(collection: string, mark: string, limit: number): Promise<string[]> {
    return this.#ids(
      `${MEMBERS} and hotel_id collate "C" > $2 order by hotel_id collate "C" limit $3`,
      [collection, mark, limit],
      '',
    );
  }

  /** Returns the members among the ids, in any order. */
  membersAmong(collection: string, ids: readonly string[]): Promise<string[]> {
    return this.#ids(`${MEMBERS} and hotel_id = any($2::text[])`, [collection, ids], '');
  }

  /** Returns ids of the hotels in the collection in byte order, after skipping `skip` of them. */
  idsFrom(collection: string, skip: number, limit: number, owner: string): Promise<string[]> {
    return this.#ids(
      `${MEMBERS} and exists (select from hotels where id = hotel_id) order by hotel_id collate "C" offset $2 limit $3`,
      [collection, skip, limit],
      owner,
      'list',
    );
  }

  async #ids(from: string, parameters: unknown[], owner: string, lane?: Lane): Promise<string[]> {
    const text = `select hotel_id as id from ${from}`;
    const rows = await this.#postgres.rows<{ id: string }>(text, parameters, owner, lane);
    return rows.map(({ id }) => id);
  }
}
