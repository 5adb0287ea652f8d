import type { View } from '../../hotels/entry.ts';
import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import { numberOf } from '../../hotels/namespace.ts';
import { monotonicMs, wallMs } from '../../lib/clock.ts';
import { MAX_ABSENCE_MS, MAX_AGE_MS } from '../../log/bounds.ts';
import { ValuesReader } from '../../redis/reply-parser.ts';
import type { LocalCache } from '../local-cache.ts';
import type { CacheMemory } from '../memory.ts';
import { PendingKeys } from './pending-keys.ts';

/** What becomes of the entries: the bodies of a response in a view, or the entries themselves. */
export type Wanted = View | 'entries';
const NUMBERS: Record<Wanted, number> = { narrow: 0, full: 1, entries: 2 };

/** Result of a reply; its bytes are valid until the next call of the program. */
export interface BatchResult {
  /** the whole response; undefined if keys remain, or if entries were wanted */
  response: Uint8Array | undefined;
  /** the table, with the response or the entries */
  pending: PendingKeys;
  hits: number;
  absent: number;
  /** values that are no entries */
  invalid: number;
}

/**
 * Reads the reply to one MGET of a batch into the shared memory. Replies on a connection arrive one after the other, so all
 * of them share one place.
 */
export class SharedReply extends ValuesReader {
  readonly #memory: CacheMemory;
  readonly #done: () => void;

  /** `done` is called when the values are there; it is not called for a reply that is too long. */
  constructor(memory: CacheMemory, keys: number, done: () => void) {
    super({ keys, memory: memory.reply });
    this.#memory = memory;
    this.#done = done;
  }

  override complete(): void {
    super.complete();
    const { wasm, buffer, words } = this.#memory;
    const { bytes, places } = this.values;
    if (bytes.buffer !== buffer) return;
    words.set(places, wasm.PLACES.value / 4);
    this.#done();
  }
}

/**
 * Reads the entries in the reply that has just arrived. If `mayStore`, the local cache stores what it has room for, or a
 * sample.
 */
export function takeEntries(
  memory: CacheMemory,
  { namespace, count, table, known }: PendingKeys,
  wanted: Wanted,
  local: LocalCache,
  mayStore: boolean,
): BatchResult {
  const { wasm, bytes } = memory;
  bytes.set(table, wasm.SCRATCH.value);
  bytes.set(known, wasm.outputStart.value >>> 0);
  wasm.takeEntries(
    ...([count, numberOf(namespace), NUMBERS[wanted], wallMs()] as const),
    known === EMPTY_ARRAY ? 1 : known.length,
    local.isEnabled && mayStore ? monotonicMs() : -1,
    ...([MAX_AGE_MS, MAX_ABSENCE_MS] as const),
  );
  const [length, gaps, hits, absent, invalid] = [0, 1, 2, 3, 4].map((i) => memory.result(i));
  const output = bytes.subarray(wasm.RESPONSE.value, wasm.RESPONSE.value + length!);
  const marked = bytes.subarray(wasm.SCRATCH.value, wasm.SCRATCH.value + table.length);
  return {
    response: gaps === 0 && wanted !== 'entries' ? output : undefined,
    pending: new PendingKeys(namespace, count, marked, output),
    ...{ hits: hits!, absent: absent!, invalid: invalid! },
  };
}
