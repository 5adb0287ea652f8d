import * as layout from './entry-layout.ts';
import { type Namespace, numberOf } from './namespace.ts';

/** End of the narrow view, behind the shared part. */
const NARROW_END = Buffer.from('null}');
export const NARROW_END_BYTES = NARROW_END.length;

/** Views of a hotel that a key may read: `narrow` shows `registry_id` as null. */
export const VIEWS = ['full', 'narrow'] as const;
export type View = (typeof VIEWS)[number];
/** Content coding of compressed forms. */
export type Encoding = 'zstd' | 'br' | 'gzip';

/** Hotel, or null if none has the key. */
export type Found = Entry | null;

/** Valid entry of a hotel: a read-only view of its bytes. */
export class Entry {
  /** as the caches store them */
  readonly bytes: Buffer;

  /** Takes the bytes of an entry that is known to be valid; the program of the caches checks those from Redis. */
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** Position of the log at which the hotel was read: the entry contains every change up to it. */
  get label(): number {
    return this.bytes.readDoubleLE(layout.LABEL_AT);
  }

  get id(): string {
    return this.#key('id') ?? '';
  }

  get channelId(): string | null {
    return this.#key('channel');
  }

  /** Registry id in canonical decimal digits. */
  get registryId(): string | null {
    return this.#key('registry');
  }

  /** Returns the twelve-character tag of a view; tags differ where the bytes differ. */
  tag(view: View): string {
    const at = view === 'full' ? layout.FULL_TAG_AT : layout.NARROW_TAG_AT;
    return this.bytes.toString('latin1', at, at + layout.TAG_BYTES);
  }

  /** Returns the length of the view's JSON in bytes. */
  bodyLength(view: View): number {
    return view === 'full' ? this.#fullLength : this.#sharedLength + NARROW_END_BYTES;
  }

  /** Returns the JSON of a view. The full one is a view of `bytes`, the narrow one a copy. */
  body(view: View): Buffer {
    if (view === 'full') return this.bytes.subarray(this.#bodyStart, this.#bodyEnd);
    const body = Buffer.allocUnsafe(this.bodyLength(view));
    this.copyBody(view, body, 0);
    return body;
  }

  /** Copies the JSON of a view to `target` at `offset`; returns the offset behind it. */
  copyBody(view: View, target: Buffer, offset: number): number {
    const start = this.#bodyStart;
    if (view === 'full') return offset + this.bytes.copy(target, offset, start, this.#bodyEnd);
    const end = offset + this.bytes.copy(target, offset, start, start + this.#sharedLength);
    return end + NARROW_END.copy(target, end);
  }

  get #fullLength(): number {
    return this.bytes.readUInt32LE(layout.BODY_LENGTH_AT);
  }

  get #sharedLength(): number {
    return this.bytes.readUInt32LE(layout.SHARED_LENGTH_AT);
  }

  get #bodyStart(): number {
    return this.#bodyEnd - this.#fullLength;
  }

  get #bodyEnd(): number {
    return this.bytes.length - this.bytes.readUInt32LE(layout.OTHER_LENGTH_AT);
  }

  #key(namespace: Namespace): string | null {
    const number = numberOf(namespace);
    let start = layout.HEADER_BYTES;
    for (let before = 0; before < number; before++) start += this.#keyLength(before);
    const length = this.#keyLength(number);
    return length === 0 ? null : this.bytes.toString('utf8', start, start + length);
  }

  #keyLength(number: number): number {
    return this.bytes.readUInt16LE(layout.KEY_LENGTHS_AT + 2 * number);
  }
}
