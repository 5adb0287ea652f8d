import type { View } from '../../hotels/entry.ts';
import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import { numberOf } from '../../hotels/namespace.ts';
import { monotonicMs, wallMs } from '../../lib/clock.ts';
import { type ReplyReader, ValuesReader } from '../../redis/reply-parser.ts';
import { MAX_RESPONSE_BYTES } from '../../wasm/constants.ts';
import { type LocalCache, REFRESH_MS } from '../local-cache.ts';
import type { CacheMemory } from '../memory.ts';
import { PendingKeys } from './pending-keys.ts';

/** Results of `takeChunk`. */
const MORE = 0;
const DONE = 1;
const MINUS = 0x2d;
/** Bytes copied at once: small enough to be read from the processor's cache, and little is copied past the reply. */
const COPIED_BYTES = 65_536;

/** What becomes of the entries: the bodies of a response in a view, or the entries themselves. */
export type Wanted = View | 'entries';
const NUMBERS: Record<Wanted, number> = { narrow: 0, full: 1, entries: 2 };

/** Result of a reply; its bytes are valid until the callback returns. */
export interface Streamed {
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
 * Reads the reply with the entries of one batch into its response. Replies on a connection arrive one after the other, so
 * all of them share one memory.
 */
export class EntryStream implements ReplyReader {
  readonly #memory: CacheMemory;
  readonly #pending: PendingKeys;
  readonly #wanted: Wanted;
  readonly #done: (streamed: Streamed) => void;
  readonly #local: LocalCache | undefined;
  readonly #mayStore: () => boolean;
  readonly #onLarge: () => void;
  #bytes = 0;
  #begun = false;
  /** reads an error reply */
  #error: ValuesReader | undefined;

  /**
   * Takes the table. While `mayStore` returns true, the local cache stores what it has room for, or a sample. `onLarge` is
   * called when more has arrived than a response has room for.
   */
  constructor(
    memory: CacheMemory,
    pending: PendingKeys,
    wanted: Wanted,
    done: (streamed: Streamed) => void,
    local?: LocalCache,
    mayStore = () => true,
    onLarge = () => {},
  ) {
    this.#memory = memory;
    this.#pending = pending;
    this.#wanted = wanted;
    this.#done = done;
    this.#local = local;
    this.#mayStore = mayStore;
    this.#onLarge = onLarge;
  }

  take(chunk: Buffer, from: number): number {
    if (!this.#begun) this.#begin(chunk[from]!);
    if (this.#error) return this.#error.take(chunk, from);
    const { wasm, bytes } = this.#memory;
    const storedAtMs = this.#local?.keeps && this.#mayStore() ? monotonicMs() : -1;
    let at = from;
    while (at < chunk.length) {
      const length = chunk.copy(bytes, wasm.chunkStart(), at, at + COPIED_BYTES);
      const status = wasm.takeChunk(length, storedAtMs);
      this.#bytes += length;
      if (this.#bytes > MAX_RESPONSE_BYTES && this.#bytes - length <= MAX_RESPONSE_BYTES) this.#onLarge();
      at += length;
      if (status === MORE) continue;
      if (status !== DONE) throw new Error('Redis sent an unexpected reply to MGET');
      return at - this.#memory.result(0);
    }
    return -1;
  }

  complete(): void {
    this.#error?.complete();
    const { wasm, bytes } = this.#memory;
    const { namespace, count, table } = this.#pending;
    const [length, gaps, hits, absent, invalid] = [1, 2, 3, 4, 5].map((i) => this.#memory.result(i));
    const output = bytes.subarray(wasm.RESPONSE.value, wasm.RESPONSE.value + length!);
    const marked = bytes.subarray(wasm.STREAMED.value, wasm.STREAMED.value + table.length);
    this.#done({
      response: gaps === 0 && this.#wanted !== 'entries' ? output : undefined,
      pending: new PendingKeys(namespace, count, marked, output),
      ...{ hits: hits!, absent: absent!, invalid: invalid! },
    });
  }

  #begin(first: number): void {
    this.#begun = true;
    if (first === MINUS) {
      this.#error = new ValuesReader({ keys: 0 });
      return;
    }
    const { wasm, bytes } = this.#memory;
    const { table, count, namespace, known } = this.#pending;
    bytes.set(table, wasm.STREAMED.value);
    const [start, length] = known === EMPTY_ARRAY ? [wasm.HITS.value, 1] : [known.byteOffset, known.length];
    wasm.beginStream(
      count,
      numberOf(namespace),
      NUMBERS[this.#wanted],
      wallMs(),
      start,
      this.#wanted === 'entries' ? 0 : length,
      this.#local?.storedOneOf ?? 0,
      REFRESH_MS,
      this.#local?.absentTtlMs ?? 0,
    );
  }
}
