import type { Postgres } from '../postgres/client.ts';
import type { Replicas } from '../postgres/replicas.ts';
import { encodeHotel } from './encode.ts';
import type { Entry } from './entry.ts';
import type { Namespace } from './namespace.ts';
import { HOTEL_COLUMNS, type HotelRow } from './row.ts';

const COLUMN = { id: 'id', channel: 'channel_id', registry: 'registry_id' } as const;
const WHERE = {
  id: 'id = any($1::text[])',
  channel: 'channel_id = any($1::text[])',
  registry: 'registry_id = any($1::bigint[])',
} as const;

/** Condition that a hotel is in the collection $2. */
const WITHIN = `exists (select from collections where id = $2)
  and exists (select from collection_hotels where collection_id = $2 and hotel_id = hotels.id)`;

/** Sorts after all ids, which have at most 255 characters. */
const AFTER_ALL = 'repeat(chr(1114111), 256)';

/** Hotels in PostgreSQL, encoded as they are read. */
export class HotelRepository {
  readonly #postgres: Postgres | Replicas;

  constructor(postgres: Postgres | Replicas) {
    this.#postgres = postgres;
  }

  /** True while queries are queued, when the batches of different owners must be separate. */
  get contended(): boolean {
    return this.#postgres.waiting > 0;
  }

  /**
   * Returns the hotels in a collection (null: of all hotels) with one of these keys, in any order, by one query. Throws
   * `Unavailable`.
   */
  async load(
    namespace: Namespace,
    keys: string[],
    owner: string,
    collection: string | null = null,
  ): Promise<Entry[]> {
    const within = collection === null ? '' : `and ${WITHIN}`;
    const rows = await this.#postgres.rows<HotelRow>(
      `select ${HOTEL_COLUMNS} from hotels where ${WHERE[namespace]} ${within}`,
      collection === null ? [keys] : [keys, collection],
      owner,
    );
    const nowMs = Date.now();
    return rows.map((row) => encodeHotel(row, nowMs));
  }

  /** Returns the id of the hotel in the collection that has a key, by key. Throws `Unavailable`. */
  async idsWithin(
    collection: string,
    namespace: Namespace,
    keys: string[],
    owner: string,
  ): Promise<Map<string, string>> {
    const rows = await this.#postgres.rows<{ id: string; key: string }>(
      `select id, ${COLUMN[namespace]}::text as key from hotels where ${WHERE[namespace]} and ${WITHIN}`,
      [keys, collection],
      owner,
    );
    return new Map(rows.map(({ id, key }) => [key, id]));
  }

  /** Returns ids of the list in byte order, after skipping `skip` ids from `start` on (null: the start). Throws `Unavailable`. */
  async idsFrom(start: string | null, skip: number, limit: number): Promise<string[]> {
    const from = start === null ? '' : 'where id collate "C" >= $3';
    const rows = await this.#postgres.rows<{ id: string }>(
      `select id from hotels ${from} order by id collate "C" offset $1 limit $2`,
      start === null ? [skip, limit] : [skip, limit, start],
      '',
      'list',
    );
    return rows.map(({ id }) => id);
  }

  /** Returns the first `most` ids from `from` (null: the start) to before `to` (null: the end), in order. Throws `Unavailable`. */
  async idsBetween(from: string | null, to: string | null, most: number): Promise<string[]> {
    const rows = await this.#postgres.rows<{ id: string }>(
      `select id from hotels where id collate "C" >= coalesce($1, '') and id collate "C" < coalesce($2, ${AFTER_ALL})
        order by id collate "C" limit $3`,
      [from, to, most],
      '',
      'list',
    );
    return rows.map(({ id }) => id);
  }

  /**
   * Returns at most `most` ids at a distance of `stride` from one another, the first `stride` after `start` (null: the
   * start). Fewer than `most` means that there are no more. Throws `Unavailable`.
   */
  async startsAfter(start: string | null, stride: number, most: number): Promise<string[]> {
    const first =
      start === null
        ? `select id from hotels order by id collate "C" offset $1 limit 1`
        : `select id from hotels where id collate "C" >= $3 order by id collate "C" offset $1 limit 1`;
    const rows = await this.#postgres.rows<{ id: string }>(
      `with recursive starts (id, n) as (
          (select (${first}), 1)
          union all
          select (select h.id from hotels h where h.id collate "C" >= starts.id order by h.id collate "C" offset $1 limit 1), n + 1
          from starts where starts.id is not null and n < $2
        )
        select id from starts where id is not null`,
      start === null ? [stride, most] : [stride, most, start],
      '',
      'background',
    );
    return rows.map(({ id }) => id);
  }

  /**
   * Counts the hotels with ids from each of `from` (null: the start) to before the one of `to` (null: the end), each up to
   * `most`. Throws `Unavailable`.
   */
  async countBetween(from: (string | null)[], to: (string | null)[], most: number): Promise<number[]> {
    const rows = await this.#postgres.rows<{ count: number }>(
      `select (
          select count(*)::float8 from (
            select from hotels
            where id collate "C" >= coalesce(bounds.lower, '') and id collate "C" < coalesce(bounds.upper, ${AFTER_ALL})
            limit $3
          ) as counted
        ) as count
        from unnest($1::text[], $2::text[]) with ordinality as bounds (lower, upper, place)
        order by place`,
      [from, to, most],
      '',
      'list',
    );
    return rows.map(({ count }) => count);
  }
}
