import { DAY_MS } from '../wasm/constants.ts';
import { assemble } from './assemble.ts';
import {
  BODY_LENGTH_AT,
  CERTIFICATION_AT,
  CERTIFICATION_LENGTH_AT,
  CHANNEL_LENGTH_AT,
  FLAGS_AT,
  FROM_DAY_AT,
  FULL_TAG_AT,
  HEADER_BYTES,
  ID_LENGTH_AT,
  LABEL_AT,
  NARROW_TAG_AT,
  NO_DAY,
  PRESENT,
  REGISTRY_LENGTH_AT,
  SHARED_LENGTH_AT,
  TAG_BYTES,
  UNTIL_DAY_AT,
  VALID_UNTIL_AT,
} from './entry-layout.ts';

import type { Namespace } from './namespace.ts';

/** End of the narrow view, behind the shared part. */
const NARROW_END = Buffer.from('null}');
export const NARROW_END_BYTES = NARROW_END.length;

/** Views of a hotel that a key may read: `narrow` shows `registry_id` as null. */
export const VIEWS = ['full', 'narrow'] as const;
export type View = (typeof VIEWS)[number];

/** Hotel, or null if none has the key. */
export type Found = Entry | null;

/** Valid entry: a read-only view of its bytes. */
export class Entry {
  /** as the caches store them */
  readonly bytes: Buffer;

  /** Takes the bytes of an entry that is known to be valid; the program of the caches checks those from Redis. */
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  /** False for the absence of a hotel. */
  get present(): boolean {
    return (this.bytes[FLAGS_AT]! & PRESENT) !== 0;
  }

  /** Position of the log at which the hotel was read: the entry contains every change up to it. */
  get label(): number {
    return this.bytes.readDoubleLE(LABEL_AT);
  }

  /** Time (epoch ms) from which `certified` in the body is wrong. */
  get validUntilMs(): number {
    return this.bytes.readDoubleLE(VALID_UNTIL_AT);
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
    const at = view === 'full' ? FULL_TAG_AT : NARROW_TAG_AT;
    return this.bytes.toString('latin1', at, at + TAG_BYTES);
  }

  /** Returns the length of the view's JSON in bytes. */
  bodyLength(view: View): number {
    return view === 'full' ? this.#fullLength : this.#sharedLength + NARROW_END_BYTES;
  }

  /** Returns the JSON of a view. The full one is a view of `bytes`, the narrow one a copy. */
  body(view: View): Buffer {
    if (view === 'full') return this.bytes.subarray(this.#bodyStart);
    const body = Buffer.allocUnsafe(this.bodyLength(view));
    this.copyBody(view, body, 0);
    return body;
  }

  /** Copies the JSON of a view to `target` at `offset`; returns the offset behind it. */
  copyBody(view: View, target: Buffer, offset: number): number {
    const start = this.#bodyStart;
    if (view === 'full') return offset + this.bytes.copy(target, offset, start);
    const end = offset + this.bytes.copy(target, offset, start, start + this.#sharedLength);
    return end + NARROW_END.copy(target, end);
  }

  get #fullLength(): number {
    return this.bytes.readUInt32LE(BODY_LENGTH_AT);
  }

  get #sharedLength(): number {
    return this.bytes.readUInt32LE(SHARED_LENGTH_AT);
  }

  get #bodyStart(): number {
    return this.bytes.length - this.#fullLength;
  }

  #keyLength(namespace: Namespace): number {
    if (namespace === 'registry') return this.bytes[REGISTRY_LENGTH_AT]!;
    return this.bytes.readUInt16LE(namespace === 'id' ? ID_LENGTH_AT : CHANNEL_LENGTH_AT);
  }

  #keyStart(namespace: Namespace): number {
    if (namespace === 'id') return HEADER_BYTES;
    const channel = HEADER_BYTES + this.#keyLength('id');
    return namespace === 'channel' ? channel : channel + this.#keyLength('channel');
  }

  #key(namespace: Namespace): string | null {
    const length = this.#keyLength(namespace);
    const start = this.#keyStart(namespace);
    return length === 0 ? null : this.bytes.toString('utf8', start, start + length);
  }

  /** Returns the entry as it reads at `nowMs`: itself, or a copy with the same label and the certification of that day. */
  at(nowMs: number): Entry {
    if (nowMs < this.validUntilMs && nowMs >= this.validFromMs) return this;
    const { bytes } = this;
    const urlStart = this.#keyStart('registry') + this.#keyLength('registry');
    const body = this.#bodyStart;
    const certifiedStart = body + bytes.readUInt32LE(CERTIFICATION_AT);
    const certifiedEnd = certifiedStart + bytes.readUInt16LE(CERTIFICATION_LENGTH_AT);
    const refreshed = assemble({
      label: this.label,
      fromDay: bytes.readInt32LE(FROM_DAY_AT),
      untilDay: bytes.readInt32LE(UNTIL_DAY_AT),
      id: this.id,
      channelId: this.channelId,
      registryId: this.registryId,
      url: bytes.toString('utf8', urlStart, body) || 'null',
      head: bytes.subarray(body, certifiedStart),
      tail: bytes.subarray(certifiedEnd),
      sharedTailLength: body + this.#sharedLength - certifiedEnd,
      nowMs,
    });
    return new Entry(refreshed);
  }

  /** Time (epoch ms) at which `certified` last flipped; before it the body was wrong. */
  private get validFromMs(): number {
    const from = this.bytes.readInt32LE(FROM_DAY_AT);
    const until = this.bytes.readInt32LE(UNTIL_DAY_AT);
    if (from === NO_DAY || until === NO_DAY || from > until) return -Infinity;
    const validUntil = this.validUntilMs;
    if (validUntil === from * DAY_MS) return -Infinity;
    return validUntil === Infinity ? (until + 1) * DAY_MS : from * DAY_MS;
  }
}
