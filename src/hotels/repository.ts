import type { Postgres } from '../postgres/client.ts';
import type { Replicas } from '../postgres/replicas.ts';
import { encodeHotel } from './encode.ts';
import type { Entry } from './entry.ts';
import { IdList } from './id-list.ts';
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

/** Hotels in PostgreSQL, encoded as they are read. */
export class HotelRepository {
  /** ids of all hotels */
  readonly list: IdList;
  readonly #postgres: Postgres | Replicas;

  constructor(postgres: Postgres | Replicas) {
    this.#postgres = postgres;
    this.list = new IdList(postgres, 'hotels');
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
    collection: string | null,
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
}
