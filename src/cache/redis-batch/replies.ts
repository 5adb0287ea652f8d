import { Entry, type Found, type View } from '../../hotels/entry.ts';
import { PartialResponse } from '../../hotels/json-array.ts';
import { type Namespace, numberOf } from '../../hotels/namespace.ts';
import { monotonicMs, wallMs } from '../../lib/clock.ts';
import { MAX_AGE_MS } from '../../log/freshness.ts';
import { ValuesReader } from '../../redis/reply-parser.ts';
import { GAP, PENDING_BYTES } from '../../wasm/constants.ts';
import * as fields from '../../wasm/fields.ts';
import type { LocalCache } from '../local-cache.ts';
import { type CacheMemory, MAX_OUTPUT_BYTES } from '../memory.ts';

/** What becomes of the entries: the bodies of a response in a view, or the entries themselves. */
export type Wanted = View | 'entries';
const NUMBERS: Record<Wanted, number> = { narrow: 0, full: 1, entries: 2 };

/** Keys of one batch between two steps: a table of src/wasm/assembly/redis-batch/pending-keys.ts. */
export class PendingKeys {
  readonly namespace: Namespace;
  readonly count: number;
  readonly table: Buffer;
  /** array of the known hotels; in a result, the entries instead */
  readonly known: Buffer;
  /** true if Redis has resolved all but the gaps, else none */
  readonly #isResolved: boolean;

  constructor(namespace: Namespace, count: number, table: Buffer, known: Buffer, isResolved = false) {
    this.namespace = namespace;
    this.count = count;
    this.table = table;
    this.known = known;
    this.#isResolved = isResolved;
  }

  /** Returns the known hotels with a gap for each key that Redis has not resolved. `isFull`: see `BatchResult`. */
  partialResponse(isFull: boolean): PartialResponse {
    const keys: string[] = [];
    const places: number[] = [];
    for (let i = 0; i < this.count; i++) {
      if (this.#isResolved && this.#word(i, fields.PENDING_ID_LENGTH) !== GAP) continue;
      keys.push(this.#key(i));
      places.push(this.#word(i, fields.PENDING_PLACE));
    }
    const isLarge = isFull || this.known.length > MAX_OUTPUT_BYTES;
    return new PartialResponse(Buffer.from(this.known), keys, places, isLarge);
  }

  /** Adds the entries that Redis has, by key. */
  addEntriesTo(found: Map<string, Found>): void {
    const source = Buffer.from(this.known);
    for (let i = 0; this.#isResolved && i < this.count; i++) {
      if (this.#word(i, fields.PENDING_ID_LENGTH) === GAP) continue;
      const start = this.#word(i, fields.PENDING_PLACE);
      // of its own bytes alone: the source has the hotels of other requests too; its length is in place of the id
      found.set(this.#key(i), new Entry(source.subarray(start, start + this.#word(i, fields.PENDING_ID))));
    }
  }

  #key(i: number): string {
    const start = this.#word(i, fields.PENDING_KEY);
    return this.table.toString('utf8', start, start + this.#word(i, fields.PENDING_KEY_LENGTH));
  }

  #word(i: number, at: number): number {
    return this.table.readUInt32LE(i * PENDING_BYTES + at);
  }
}

/** Result of a batch; its bytes are valid until the next call of the program. */
export interface BatchResult {
  /** the whole response; undefined if keys remain, or if entries were wanted */
  response: Uint8Array | undefined;
  /** the table, with the response or the entries */
  pending: PendingKeys;
  hits: number;
  /** values that are no entries */
  invalid: number;
  /** true if entries in Redis are left out, because the response has no room */
  isFull: boolean;
}

/** Returns the result of a batch that Redis has not resolved beyond this table. */
export function nothing(pending: PendingKeys): BatchResult {
  return { response: undefined, pending, hits: 0, invalid: 0, isFull: false };
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
    known.length,
    local.isEnabled && mayStore ? monotonicMs() : -1,
    MAX_AGE_MS,
  );
  const start = wasm.RESPONSE.value;
  const output = bytes.subarray(start, start + memory.result(fields.RESPONSE_LENGTH));
  const marked = bytes.subarray(wasm.SCRATCH.value, wasm.SCRATCH.value + table.length);
  return {
    response: memory.result(fields.RESPONSE_GAPS) === 0 && wanted !== 'entries' ? output : undefined,
    pending: new PendingKeys(namespace, count, marked, output, true),
    hits: memory.result(fields.RESPONSE_HITS),
    invalid: memory.result(fields.RESPONSE_INVALID),
    isFull: memory.result(fields.RESPONSE_IS_FULL) !== 0,
  };
}
