import type { View } from '../../hotels/entry.ts';
import { EMPTY_ARRAY } from '../../hotels/json-array.ts';
import { numberOf } from '../../hotels/namespace.ts';
import { monotonicMs, wallMs } from '../../lib/clock.ts';
import { type ReplyReader, ValuesReader } from '../../redis/reply-parser.ts';
import { type LocalCache, REFRESH_MS } from '../local-cache.ts';
import type { CacheMemory } from '../memory.ts';
import { PartialResponse } from '../partial-response.ts';
import type { PendingKeys } from './pending-keys.ts';

/** Results of `takeChunk`. */
const MORE = 0;
const DONE = 1;
const MINUS = 0x2d;
/** Bytes copied at once: small enough to be read from the processor's cache, and little is copied past the reply. */
const PIECE_BYTES = 65_536;

/**
 * Reads the reply with the entries of one batch into its response. Replies on a connection arrive one after the other, so
 * all of them share one memory.
 */
export class EntryStream implements ReplyReader {
  readonly #memory: CacheMemory;
  readonly #pending: PendingKeys;
  readonly #view: View;
  readonly #done: (result: Uint8Array | PartialResponse, hits: number) => void;
  readonly #local: LocalCache | undefined;
  readonly #mayStore: () => boolean;
  #begun = false;
  /** reads an error reply */
  #error: ValuesReader | undefined;

  /**
   * Takes the table and the callback for the response, whose bytes are valid until it returns, and its number of hotels. While
   * `mayStore` returns true, the local cache stores what it has room for, or a sample.
   */
  constructor(
    memory: CacheMemory,
    pending: PendingKeys,
    view: View,
    done: (result: Uint8Array | PartialResponse, hits: number) => void,
    local?: LocalCache,
    mayStore = () => true,
  ) {
    this.#local = local;
    this.#mayStore = mayStore;
    this.#memory = memory;
    this.#pending = pending;
    this.#view = view;
    this.#done = done;
  }

  take(chunk: Buffer, from: number): number {
    if (!this.#begun) this.#begin(chunk[from]!);
    if (this.#error) return this.#error.take(chunk, from);
    const { wasm, bytes } = this.#memory;
    const storedAtMs = this.#local?.keeps && this.#mayStore() ? monotonicMs() : -1;
    let at = from;
    while (at < chunk.length) {
      const length = chunk.copy(bytes, wasm.chunkStart(), at, at + PIECE_BYTES);
      const status = wasm.takeChunk(length, storedAtMs);
      at += length;
      if (status === MORE) continue;
      if (status !== DONE) throw new Error('Redis sent an unexpected reply to MGET');
      return at - this.#memory.result(0);
    }
    return -1;
  }

  complete(): void {
    this.#error?.complete();
    this.#done(this.#result(), this.#memory.result(3));
  }

  #result(): Uint8Array | PartialResponse {
    const { wasm, bytes, words } = this.#memory;
    const start = wasm.RESPONSE.value;
    const output = bytes.subarray(start, start + this.#memory.result(1));
    const gaps = this.#memory.result(2);
    if (gaps === 0) return output;
    const keys: string[] = [];
    const places: number[] = [];
    for (let i = 0; i < gaps; i++) {
      const word = wasm.STREAM_GAPS.value / 4 + 2 * i;
      keys.push(this.#pending.key(words[word]!));
      places.push(words[word + 1]!);
    }
    return new PartialResponse(Buffer.from(output), keys, places);
  }

  #begin(first: number): void {
    this.#begun = true;
    if (first === MINUS) {
      this.#error = new ValuesReader({ keys: 0 });
      return;
    }
    const { wasm, bytes } = this.#memory;
    const { table, count, namespace, hits } = this.#pending;
    bytes.set(table, wasm.STREAMED.value);
    const [hitsStart, hitsLength] =
      hits === EMPTY_ARRAY ? [wasm.HITS.value, 1] : [hits.byteOffset, hits.length];
    const isFull = this.#view === 'full' ? 1 : 0;
    wasm.beginStream(
      count,
      numberOf(namespace),
      isFull,
      wallMs(),
      hitsStart,
      hitsLength,
      this.#local?.storedOneOf ?? 0,
      REFRESH_MS,
    );
  }
}
