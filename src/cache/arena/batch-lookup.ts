import type { View } from '../../hotels/entry.ts';
import type { ArenaWasm } from '../../wasm/arena.ts';
import { PartialResponse } from '../partial-response.ts';
import { tagAt } from './tag.ts';

/** What became of a batch: answered; wrong or too long, so others must judge it; larger than the output. */
export const OK = 0;
export const NOT_READ = 1;
export const TOO_LARGE = 2;
export type BatchLookupStatus = typeof OK | typeof NOT_READ | typeof TOO_LARGE;

/**
 * What an arena found for a batch. A arena has one and writes it anew with each batch; `output`, `takeGapped` and
 * `softKeys` read the arena's memory and hold until its next call.
 */
export class BatchLookup {
  status: BatchLookupStatus = NOT_READ;
  /** hotels answered; this and what follows says nothing where the status is NOT_READ */
  hits = 0;
  /** keys known to be absent, each time they were asked for */
  absences = 0;
  /** keys not held, each time they were asked for */
  misses = 0;
  /** when the first of the hits is to be refreshed, epoch ms; Infinity without hits */
  soonestSoftMs = Infinity;

  readonly #bytes: Buffer;
  readonly #words: Uint32Array;
  readonly #floats: Float64Array;
  readonly #area: Buffer;
  /** indexes into #words */
  readonly #result: number;
  readonly #elements: number;
  readonly #gaps: number;
  #outputLength = 0;
  #asked = 0;
  /** the keys, where JavaScript gave them */
  #keys: readonly string[] | undefined;

  constructor(wasm: ArenaWasm, memory: ArrayBuffer, outputBytes: number) {
    this.#bytes = Buffer.from(memory);
    this.#words = new Uint32Array(memory);
    this.#floats = new Float64Array(memory);
    this.#area = Buffer.from(memory, wasm.outputStart.value >>> 0, outputBytes);
    this.#result = wasm.RESULT.value / 4;
    this.#elements = wasm.ELEMENTS.value / 4;
    this.#gaps = wasm.GAPS.value / 4;
  }

  /** Takes what wasm has just written. */
  take(status: number, keys: readonly string[] | undefined): this {
    this.status = status as BatchLookupStatus;
    if (status === NOT_READ) return this;
    const [words, floats, word] = [this.#words, this.#floats, this.#result];
    this.hits = words[word]!;
    this.absences = words[word + 1]!;
    this.misses = words[word + 2]!;
    this.#outputLength = words[word + 3]!;
    this.soonestSoftMs = floats[word / 2 + 2]!;
    this.#asked = words[word + 8]!;
    this.#keys = keys;
    return this;
  }

  /** The array of the hits' bodies in the order asked, each at its first place; empty where TOO_LARGE. */
  get output(): Uint8Array {
    return this.#area.subarray(0, this.#outputLength);
  }

  /** The tags of the hits, in the order asked; undefined where there is none, and where a hotel was answered already. */
  tags(view: View): (string | undefined)[] {
    const tags: (string | undefined)[] = [];
    for (let i = 0; i < this.#asked; i++) {
      const ref = this.#words[this.#elements + i * 4 + 3]!;
      tags.push(ref > 1 ? tagAt(this.#bytes, ref, view) : undefined);
    }
    return tags;
  }

  /** Copies the output, with the keys that were missed and their places, to be completed later. Needs OK. */
  takePartial(): PartialResponse {
    const keys: string[] = [];
    const places: number[] = [];
    const seen = new Set<string>();
    for (let i = 0; i < this.misses; i++) {
      const key = this.#key(this.#words[this.#gaps + i * 2]!);
      if (seen.has(key)) continue;
      seen.add(key);
      keys.push(key);
      places.push(this.#words[this.#gaps + i * 2 + 1]!);
    }
    return new PartialResponse(Buffer.from(this.output), keys, places);
  }

  /** Keys of the hits that are past their soft expiry. */
  softKeys(nowMs: number): string[] {
    const keys = [];
    for (let i = 0; i < this.#asked; i++) {
      const ref = this.#words[this.#elements + i * 4 + 3]!;
      // 0 is a miss, 1 adds nothing; softUntil is the third f64 of a record.
      if (ref > 1 && this.#floats[ref + 2]! <= nowMs) keys.push(this.#key(i));
    }
    return keys;
  }

  #key(element: number): string {
    if (this.#keys) return this.#keys[element]!;
    const word = this.#elements + element * 4;
    const start = this.#words[word]!;
    return this.#bytes.toString('utf8', start, start + this.#words[word + 1]!);
  }
}
