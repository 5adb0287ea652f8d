import { setTimeout as sleep } from 'node:timers/promises';
import { encodeHotel } from '../../src/hotels/encode.ts';
import { HOTEL_COLUMNS, type HotelRow } from '../../src/hotels/row.ts';
import { Mirror } from '../support/mirror.ts';
import { isUnavailable } from './faults.ts';
import { COLLECTION, type Random, type System, type View } from './system.ts';

/** Mirror that pauses, waits, requests pages from any service, begins again after a 410, and repeats a request after a lost connection. */
export class Follower {
  readonly #system: System;
  readonly #random: Random;
  readonly #view: View;
  #mirror: Mirror;

  constructor(system: System, random: Random, view: View) {
    this.#system = system;
    this.#random = random;
    this.#view = view;
    this.#mirror = this.#begin();
  }

  #begin(): Mirror {
    const { services, keys } = this.#system;
    const limit = 1 + this.#random(this.#random(2) ? 1000 : 20);
    return new Mirror(
      (path) => services[this.#random(services.length)]!.get(path, { key: keys[this.#view] }),
      limit,
    );
  }

  /** Asks once. Throws if the copy holds half of a transaction though there is no more. */
  async requestPage(): Promise<void> {
    try {
      const { more } = await this.#mirror.requestPage(this.#random(4) === 0 ? 1 : 0);
      const { hotels } = this.#mirror;
      const [a, z] = [hotels.get('pair-a'), hotels.get('pair-z')];
      if (!more && a?.room_count !== z?.room_count) throw new Error('half of a transaction is in the copy');
    } catch (error) {
      const status = (error as { response?: { status: number } }).response?.status;
      if (status === 410) this.#mirror = this.#begin();
      else if (status === 503 || isUnavailable(error)) await sleep(20);
      else throw error;
    }
  }

  async requestWhile(goesOn: () => boolean): Promise<void> {
    while (goesOn()) {
      await this.requestPage();
      if (this.#random(5) === 0) await sleep(this.#random(60));
    }
  }

  /** Asks until there is no more, and returns the first difference from the table; '': none. */
  async difference(): Promise<string> {
    do await this.requestPage();
    while (this.#mirror.more);
    const truth = await stored(this.#system, this.#view);
    const copy: Map<string, unknown> = this.#mirror.hotels;
    for (const id of new Set([...copy.keys(), ...truth.keys()])) {
      const [held, is] = [copy.get(id), truth.get(id)].map((hotel) => JSON.stringify(hotel));
      if (held !== is) return `${this.#view}, ${id}: the copy holds ${held}, the table ${is}`;
    }
    return '';
  }
}

/** Returns the hotels that a key sees, as the table holds them. */
async function stored({ sql, clock }: System, view: View): Promise<Map<string, unknown>> {
  const isSeen = sql`exists (select from collections where id = ${COLLECTION})
    and id in (select hotel_id from collection_hotels where collection_id = ${COLLECTION})`;
  const rows = await sql<HotelRow[]>`
    select ${sql.unsafe(HOTEL_COLUMNS)} from hotels where ${view === 'collection' ? isSeen : sql`true`}`;
  const bytes = view === 'full' ? 'full' : 'narrow';
  return new Map(
    rows.map((row) => [row.id, JSON.parse(encodeHotel(row, 0, clock.now()).body(bytes).toString())]),
  );
}
