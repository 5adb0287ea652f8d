import { wallMs } from '../lib/clock.ts';
import type { EventLoop } from '../lib/event-loop.ts';
import type { Origin } from '../postgres/origin.ts';
import { encodeHotel, encodeInTurns } from './encode.ts';
import type { Entry } from './entry.ts';
import { IdList } from './id-list.ts';
import type { Namespace } from './namespace.ts';
import { HOTEL_COLUMNS, type HotelRow } from './row.ts';

const WHERE = {
  id: 'id = any($1::text[])',
  channel: 'channel_id = any($1::text[])',
  registry: 'registry_id = any($1::bigint[])',
} as const;

/** Condition that a hotel is in the collection $2. */
const WITHIN = `exists (select from collections where id = $2)
  and exists (select from collection_hotels where collection_id = $2 and hotel_id = hotels.id)`;

/** Result of one query for hotels. */
export interface LoadedHotels {
  /** position of the log at which they were read */
  label: number;
  /** in any order */
  entries: Entry[];
  /** returns false when another history has begun since: the label means nothing in it */
  isOfHistory: () => boolean;
}

/** Hotels in PostgreSQL, encoded as they are read. */
export class HotelRepository {
  /** ids of all hotels */
  readonly list: IdList;
  readonly #origin: Origin;
  readonly #prefix: () => string;
  readonly #eventLoop: EventLoop;

  /** `prefix`: returns a text that differs for each history and server that is followed. */
  constructor(origin: Origin, prefix: () => string, eventLoop: EventLoop) {
    this.#origin = origin;
    this.#prefix = prefix;
    this.#eventLoop = eventLoop;
    this.list = new IdList(origin, 'hotels');
  }

  /** True while queries are queued, when the batches of different owners must be separate. */
  get contended(): boolean {
    return this.#origin.waiting > 0;
  }

  /** Loads the hotels in a collection (null: of all hotels) with one of these keys, by one query. Throws `Unavailable`. */
  async load(
    namespace: Namespace,
    keys: readonly string[],
    owner: string,
    collection: string | null,
  ): Promise<LoadedHotels> {
    const within = collection === null ? '' : `and ${WITHIN}`;
    const { label, rows } = await this.#origin.read<HotelRow>(
      `select ${HOTEL_COLUMNS} from hotels where ${WHERE[namespace]} ${within}`,
      collection === null ? [keys] : [keys, collection],
      owner,
    );
    const prefix = this.#prefix();
    const nowMs = wallMs();
    const entries: Entry[] = [];
    await encodeInTurns(rows, owner, this.#eventLoop, (row) => {
      const entry = encodeHotel(row, label, nowMs);
      entries.push(entry);
      return entry.bytes.length;
    });
    return {
      label,
      entries,
      isOfHistory: () => prefix === this.#prefix(),
    };
  }
}
