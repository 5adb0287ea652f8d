import { isUtf8 } from 'node:buffer';
import { type Encoding, NARROW_END_BYTES, type View } from '../../hotels/entry.ts';
import { BODY_LENGTH_AT, OTHER_LENGTH_AT, SHARED_LENGTH_AT } from '../../hotels/entry-layout.ts';
import { type Namespace, numberOf } from '../../hotels/namespace.ts';
import type { CacheWasm } from '../../wasm/cache.ts';
import { MAX_KEYS, MISS, NOT_JSON, RECORD_HEADER_BYTES } from '../../wasm/constants.ts';
import * as fields from '../../wasm/fields.ts';
import { writeKey, writeKeys } from '../../wasm/key-bytes.ts';
import type { CacheMemory, Ids } from '../memory.ts';
import { BatchLookup } from './batch-lookup.ts';
import { StoredTag, tagStart } from './tag.ts';

/** Fields of a record and of its entry, in words of four bytes from the record's start. */
const BODY_LENGTH_WORD = (RECORD_HEADER_BYTES + BODY_LENGTH_AT) / 4;
const SHARED_LENGTH_WORD = (RECORD_HEADER_BYTES + SHARED_LENGTH_AT) / 4;
const OTHER_LENGTH_WORD = (RECORD_HEADER_BYTES + OTHER_LENGTH_AT) / 4;
const RECORD_LENGTH_WORD = fields.RECORD_LENGTH / 4;

const FORM_NUMBERS: Record<Encoding, number> = { zstd: 0, br: 2, gzip: 4 };

/**
 * Storage of the local cache: one WebAssembly memory with the entries (layout: hotels/entry-layout.ts) and an index of their
 * keys, without a JavaScript object for each. A hotel is found by its id, its channel id and its registry id.
 *
 * A ref and its tag are valid from `find` until the next `put`, `putAbsent`, `putForm`, `drop`, `dropSince` or `clear`. Views of the
 * memory (`body`, `output`) are valid until the next call. Both must not be kept across an await.
 */
export class CacheArena {
  readonly #memory: CacheMemory;
  readonly #wasm: CacheWasm;
  readonly #bytes: Buffer;
  readonly #words: Uint32Array;
  readonly #maxEntryBytes: number;
  readonly #input: number;
  /** space for keys and bodies; a longer body throws */
  readonly #inputArea: Buffer;
  readonly #outputStart: number;
  readonly #batchLookup: BatchLookup;
  readonly #tag: StoredTag;

  constructor(memory: CacheMemory) {
    const { wasm, bytes, words } = memory;
    this.#memory = memory;
    this.#wasm = wasm;
    this.#bytes = bytes;
    this.#words = words;
    this.#maxEntryBytes = wasm.maxEntryBytes();
    this.#input = wasm.INPUT.value;
    this.#inputArea = bytes.subarray(this.#input, this.#input + wasm.INPUT_BYTES.value);
    this.#outputStart = wasm.outputStart.value >>> 0;
    this.#tag = new StoredTag(bytes);
    this.#batchLookup = new BatchLookup(memory);
  }

  /**
   * Copies an entry of a present hotel, as returned by `encodeHotel`. It replaces the stored entry of that
   * id, unless that has a larger label. A channel or registry id of another entry goes to the larger label. Returns
   * false if the entry was not stored.
   */
  put(entry: Uint8Array, nowMs: number, untilMs: number): boolean {
    // a longer entry does not fit the output; wasm rejects it by its length
    if (entry.length <= this.#maxEntryBytes) this.#bytes.set(entry, this.#outputStart);
    return this.#wasm.putEntry(this.#outputStart, entry.length, nowMs, untilMs) !== 0;
  }

  /** Stores that no hotel has this key, until `untilMs`, and drops the entry with it. */
  putAbsent(namespace: Namespace, key: string, nowMs: number, untilMs: number): void {
    if (this.#memory.maxBytes === 0) return;
    const length = writeKey(this.#bytes, key, this.#input);
    if (length > 0) this.#wasm.putAbsence(numberOf(namespace), this.#input, length, nowMs, untilMs);
  }

  /**
   * Returns the ref of the hotel with this key, ABSENT if it is known that there is none, or MISS. A hotel stored before
   * `minStoredAtMs` is a MISS. From then on it shows `certified` as of `wallMs` (epoch ms). All other times here share one
   * clock, which the caller chooses.
   */
  find(namespace: Namespace, key: string, nowMs: number, minStoredAtMs = 0, wallMs = nowMs): number {
    const length = writeKey(this.#bytes, key, this.#input);
    if (length === 0) return MISS;
    return this.#wasm.find(numberOf(namespace), this.#input, length, nowMs, minStoredAtMs, wallMs);
  }

  /** Returns the tag of a view; tags differ where the bytes differ. The object is the same for all tags. */
  tag(ref: number, view: View): StoredTag {
    this.#tag.at = tagStart(ref, view);
    return this.#tag;
  }

  /** Returns the JSON of a view in the arena's memory, valid until the next call. */
  body(ref: number, view: View): Uint8Array {
    const words = this.#words;
    const word = ref * 2;
    if (view === 'full') {
      const length = words[word + BODY_LENGTH_WORD]!;
      const end =
        ref * 8 + RECORD_HEADER_BYTES + words[word + RECORD_LENGTH_WORD]! - words[word + OTHER_LENGTH_WORD]!;
      return this.#view(end - length, length);
    }
    this.#wasm.narrow(ref);
    return this.#view(this.#outputStart, words[word + SHARED_LENGTH_WORD]! + NARROW_END_BYTES);
  }

  bodyLength(ref: number, view: View): number {
    const words = this.#words;
    return view === 'full'
      ? words[ref * 2 + BODY_LENGTH_WORD]!
      : words[ref * 2 + SHARED_LENGTH_WORD]! + NARROW_END_BYTES;
  }

  /**
   * Returns the compressed form of a view in the arena's memory, valid until the next call. It is empty if compression
   * does not pay, undefined if none is stored.
   */
  form(ref: number, view: View, encoding: Encoding): Uint8Array | undefined {
    const form = this.#wasm.findForm(ref, formNumber(view, encoding));
    if (form === 0) return undefined;
    const content = form * 8 + RECORD_HEADER_BYTES;
    const start = 4 + this.#words[content / 4]!;
    return this.#view(content + start, this.#words[form * 2 + RECORD_LENGTH_WORD]! - start);
  }

  /** Stores a compressed form, empty if compression does not pay. The call invalidates all refs. */
  putForm(ref: number, view: View, encoding: Encoding, bytes: Uint8Array): void {
    if (bytes.length > this.#maxEntryBytes) return;
    this.#bytes.set(bytes, this.#outputStart);
    this.#wasm.putForm(ref, formNumber(view, encoding), bytes.length);
  }

  /** Returns true if the id of the entry is among these. */
  isAmong(ref: number, ids: Ids): boolean {
    this.#wasm.hashId(ref);
    return ids.hasHash(this.#memory.result(0), this.#memory.result(4));
  }

  /** Returns a copy of the entry. */
  read(ref: number): Buffer {
    const start = ref * 8 + RECORD_HEADER_BYTES;
    return Buffer.from(this.#bytes.subarray(start, start + this.#words[ref * 2 + RECORD_LENGTH_WORD]!));
  }

  /** Drops the hotel or the absence of this key, with all its keys. */
  drop(namespace: Namespace, key: string): void {
    const length = writeKey(this.#bytes, key, this.#input);
    if (length > 0) this.#wasm.dropKey(numberOf(namespace), this.#input, length);
  }

  /** Drops the hotels and absences that were stored at this time or later. */
  dropSince(sinceMs: number): void {
    this.#wasm.dropSince(sinceMs);
  }

  /** True while the main ring and the index have room, so that a stored entry evicts none. */
  get hasRoom(): boolean {
    return this.#wasm.hasRoom() !== 0;
  }

  /** Drops everything. */
  clear(): void {
    this.#wasm.clear();
  }

  /**
   * Looks up the ids in a batch request body, which is at most as long as INPUT. The response keeps their order and omits
   * absent and missed hotels. Times as in `find`. With `visible`, other ids are left out before the lookup: what it finds
   * depends on them in no way. Returns the arena's one `BatchLookup`, overwritten by each batch.
   */
  gather(
    namespace: Namespace,
    body: Uint8Array,
    view: View,
    nowMs: number,
    minStoredAtMs = 0,
    wallMs = nowMs,
    visible?: Ids,
  ): BatchLookup {
    this.#inputArea.set(body);
    const isFull = view === 'full' ? 1 : 0;
    const number = numberOf(namespace);
    const parsed = isUtf8(body) ? this.#wasm.readBody(body.length, number) : NOT_JSON;
    if (parsed < 0) return this.#batchLookup.take(parsed, undefined);
    const count = visible ? this.#moveToFront(parsed, number, visible) : parsed;
    const hashesIds = visible ? 1 : 0;
    const status = this.#wasm.gather(count, number, isFull, nowMs, minStoredAtMs, wallMs, hashesIds);
    return this.#batchLookup.take(status, undefined);
  }

  /** Moves the elements with visible ids to the front; returns their number. */
  #moveToFront(count: number, namespace: number, visible: Ids): number {
    this.#wasm.hashKeys(count, namespace);
    const words = this.#words;
    const elements = this.#wasm.ELEMENTS.value / 4;
    const hashes = this.#wasm.HASHES.value / 4;
    let kept = 0;
    for (let i = 0; i < count; i++) {
      if (!visible.hasHash(words[hashes + 2 * i]!, words[hashes + 2 * i + 1]!)) continue;
      words[elements + 4 * kept] = words[elements + 4 * i]!;
      words[elements + 4 * kept + 1] = words[elements + 4 * i + 1]!;
      kept++;
    }
    return kept;
  }

  /** Looks up at most MAX_KEYS parsed keys, registry ids in canonical decimal digits; otherwise like `gather`. */
  gatherKeys(
    namespace: Namespace,
    keys: readonly string[],
    view: View,
    nowMs: number,
    minStoredAtMs = 0,
    wallMs = nowMs,
  ): BatchLookup {
    if (keys.length > MAX_KEYS) throw new RangeError(`${keys.length} keys in one batch`);
    const elements = this.#wasm.ELEMENTS.value / 4;
    writeKeys(this.#bytes, keys, this.#input, this.#inputArea.length, this.#words, elements);
    const isFull = view === 'full' ? 1 : 0;
    const number = numberOf(namespace);
    const status = this.#wasm.gather(keys.length, number, isFull, nowMs, minStoredAtMs, wallMs, 0);
    return this.#batchLookup.take(status, keys);
  }

  /** Makes parsed keys the last lookup, which missed all of them; returns their number. */
  missAll(namespace: Namespace, keys: readonly string[]): number {
    return this.gatherKeys(namespace, keys, 'full', 0, Infinity).misses;
  }

  stats() {
    const wasm = this.#wasm;
    return {
      entries: wasm.entries.value,
      absences: wasm.absences.value,
      /** bytes of the budget that were ever written, which may be resident */
      bytes: wasm.writtenBytes(),
      maxBytes: this.#memory.maxBytes,
      /** entries evicted to free space, and compressed forms evicted from the main ring */
      evictions: wasm.evictions.value,
      puts: wasm.puts.value,
    };
  }

  #view(start: number, length: number): Uint8Array {
    return new Uint8Array(this.#memory.buffer, start, length);
  }
}

function formNumber(view: View, encoding: Encoding): number {
  return FORM_NUMBERS[encoding] + (view === 'full' ? 1 : 0);
}
