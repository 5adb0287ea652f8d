import type { View } from '../../hotels/entry.ts';
import { TAG_BYTES } from '../../hotels/entry-layout.ts';
import { EMPTY_ARRAY, PartialResponse } from '../../hotels/json-array.ts';
import type { CacheWasm } from '../../wasm/cache.ts';
import { NO_BODY, OK, TOO_LARGE } from '../../wasm/constants.ts';
import * as fields from '../../wasm/fields.ts';
import type { CacheMemory, Ids } from '../memory.ts';
import { tagAt, tagStart } from './tag.ts';

/**
 * Result of a batch lookup. An arena has one and overwrites it with each batch. `output` and `takePartial`
 * read the arena's memory and are valid until its next call.
 */
export class BatchLookup {
  status = OK;
  /** hotels found; 0 unless the status is OK */
  hits = 0;
  /** known absent keys, repetitions included; 0 unless the status is OK */
  absences = 0;
  /** missed keys, repetitions included; all of them if the status is TOO_LARGE */
  misses = 0;

  readonly #wasm: CacheWasm;
  readonly #bytes: Buffer;
  readonly #words: Uint32Array;
  readonly #area: Buffer;
  /** indexes into #words */
  readonly #result: number;
  readonly #elements: number;
  readonly #gaps: number;
  readonly #hashes: number;
  #outputLength = 0;
  #count = 0;
  /** the keys, if the caller passed parsed keys */
  #keys: readonly string[] | undefined;

  constructor({ wasm, buffer, bytes, words, outputBytes }: CacheMemory) {
    this.#wasm = wasm;
    this.#bytes = bytes;
    this.#words = words;
    this.#area = Buffer.from(buffer, wasm.outputStart.value >>> 0, outputBytes);
    this.#result = wasm.RESULT.value / 4;
    this.#elements = wasm.ELEMENTS.value / 4;
    this.#gaps = wasm.GAPS.value / 4;
    this.#hashes = wasm.HASHES.value / 4;
  }

  /** Reads the results that wasm has just written. */
  take(status: number, keys: readonly string[] | undefined): this {
    this.status = status;
    const [words, word] = [this.#words, this.#result];
    this.#keys = keys;
    this.#count = words[word + fields.LOOKUP_COUNT / 4]!;
    const isOk = status === OK;
    this.hits = isOk ? words[word + fields.LOOKUP_HITS / 4]! : 0;
    this.absences = isOk ? words[word + fields.LOOKUP_ABSENCES / 4]! : 0;
    this.misses = isOk ? words[word + fields.LOOKUP_MISSES / 4]! : status === TOO_LARGE ? this.#count : 0;
    this.#outputLength = isOk ? words[word + fields.LOOKUP_OUTPUT_LENGTH / 4]! : 0;
    return this;
  }

  /** Index of the first wrong element, if that is the error. */
  get wrongIndex(): number {
    return this.#wasm.wrongIndex.value;
  }

  /** Array of the bodies found, in the requested order without repetitions; empty if TOO_LARGE. */
  get output(): Uint8Array {
    return this.#area.subarray(0, this.#outputLength);
  }

  /** Returns the tags of the hits in the requested order, undefined for other keys and repetitions. */
  tags(view: View): (string | undefined)[] {
    const tags: (string | undefined)[] = [];
    for (let i = 0; i < this.#count; i++) {
      const ref = this.#words[this.#elements + i * 4 + 3]!;
      tags.push(this.status === OK && ref > NO_BODY ? tagAt(this.#bytes, tagStart(ref, view)) : undefined);
    }
    return tags;
  }

  /** Returns the tags of the hits in the requested order, one after the other. */
  joinedTags(view: View): Buffer {
    const joined = Buffer.allocUnsafe(this.hits * TAG_BYTES);
    let at = 0;
    for (let i = 0; i < this.#count; i++) {
      const ref = this.#words[this.#elements + i * 4 + 3]!;
      if (ref <= NO_BODY) continue;
      const start = tagStart(ref, view);
      for (let byte = start; byte < start + TAG_BYTES; byte++) joined[at++] = this.#bytes[byte]!;
    }
    return joined;
  }

  /**
   * Copies the output with the missed keys and their places, for completion later. If the response is TOO_LARGE for
   * the output, or with `isWhole`, all keys are missed.
   */
  takePartial(isWhole = false): PartialResponse {
    const keys: string[] = [];
    const places: number[] = [];
    const seen = new Set<string>();
    const isKept = this.status === OK && !isWhole;
    for (let i = 0; i < (isKept ? this.misses : this.#count); i++) {
      const key = this.#key(isKept ? this.#words[this.#gaps + i * 2]! : i);
      if (seen.has(key)) continue;
      seen.add(key);
      keys.push(key);
      places.push(isKept ? this.#words[this.#gaps + i * 2 + 1]! : 1);
    }
    return new PartialResponse(isKept ? Buffer.from(this.output) : EMPTY_ARRAY, keys, places, !isKept);
  }

  /** Returns true if all hits of a lookup with visible ids have their own ids among these. */
  areAmong(ids: Ids): boolean {
    if (this.status !== OK) return true;
    const end = this.#hashes + 2 * this.hits;
    for (let at = this.#hashes; at < end; at += 2)
      if (!ids.hasHash(this.#words[at]!, this.#words[at + 1]!)) return false;
    return true;
  }

  #key(element: number): string {
    if (this.#keys) return this.#keys[element]!;
    const word = this.#elements + element * 4;
    const start = this.#words[word]!;
    return this.#bytes.toString('utf8', start, start + this.#words[word + 1]!);
  }
}
