import type { Postgres } from '../stores/postgres.ts';
import { type Entry, encodeHotel, HOTEL_COLUMNS, type HotelRow } from './entry.ts';
import type { Namespace } from './shared.ts';

const WHERE = {
  id: 'id = any($1::text[])',
  channel: 'channel_id = any($1::text[])',
  registry: 'registry_id = any($1::bigint[])',
} as const;

/** Hotels in PostgreSQL, encoded as they are read. */
export class Origin {
  readonly #postgres: Postgres;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  /** The hotels that carry one of these keys, in any order, by one query. Throws `Unavailable`. */
  async load(namespace: Namespace, keys: string[]): Promise<Entry[]> {
    const rows = await this.#postgres.query((sql) =>
      sql.unsafe<HotelRow[]>(`select ${HOTEL_COLUMNS} from hotels where ${WHERE[namespace]}`, [keys], {
        prepare: true,
      }),
    );
    const nowMs = Date.now();
    return rows.map((row) => encodeHotel(row, nowMs));
  }

  /** Ids of the list, ordered by their bytes. Throws `Unavailable`. */
  async idsAt(offset: number, limit: number): Promise<string[]> {
    const rows = await this.#postgres.query(
      (sql) => sql<{ id: string }[]>`
        select id from hotels order by id collate "C" offset ${offset}::bigint limit ${limit}`,
    );
    return rows.map(({ id }) => id);
  }
}
