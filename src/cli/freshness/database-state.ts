import type { Sql } from 'postgres';
import { encodeHotel } from '../../hotels/encode.ts';
import { VIEWS } from '../../hotels/entry.ts';
import { HOTEL_COLUMNS, type HotelRow } from '../../hotels/row.ts';
import { tagOf } from '../../http/etag.ts';

/** State of a hotel in a response: the tag of its ETag, or `stateOf` its object; null: no such hotel. */
export type Shown = string | null;

/** States of some hotels in PostgreSQL since the first read. Any other state in a response is older or newer. */
export class DatabaseState {
  readonly #sql: Sql;
  readonly #states = new Map<string, Set<Shown>>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  async read(ids: string[]): Promise<void> {
    const rows = await this.#sql.unsafe<HotelRow[]>(
      `select ${HOTEL_COLUMNS} from hotels where id = any($1::text[])`,
      [ids],
    );
    const nowMs = Date.now();
    const found = new Map(rows.map((row) => [row.id, encodeHotel(row, 0, nowMs)]));
    for (const id of ids) {
      const said = this.#states.get(id) ?? new Set();
      this.#states.set(id, said);
      const entry = found.get(id);
      // a key may see either view
      for (const view of VIEWS) {
        said.add(entry ? entry.tag(view) : null);
        said.add(entry ? stateOf(JSON.parse(entry.body(view).toString())) : null);
      }
    }
  }

  /** Returns true for a known state; otherwise reads again, because the hotel may have changed since. */
  async matches(id: string, shown: Shown): Promise<boolean> {
    if (!this.#states.get(id)?.has(shown)) await this.read([id]);
    return this.#states.get(id)!.has(shown);
  }
}

/** Returns the state of a hotel as an object, or of a hotel that is gone. */
export function stateOf(hotel: object | null): Shown {
  return hotel && tagOf(Buffer.from(JSON.stringify(hotel)));
}
