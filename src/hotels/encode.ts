import { hash } from 'node:crypto';
import { DAY_MS, monotonicMs } from '../lib/clock.ts';
import { BUDGET_MS, type EventLoop, workOf } from '../lib/event-loop.ts';
import { MAX_ENTRY_BYTES } from '../wasm/constants.ts';
import { Entry } from './entry.ts';
import * as layout from './entry-layout.ts';
import { Hotel, MAX_IMAGES } from './hotel.ts';
import { type Namespace, numberOf } from './namespace.ts';
import type { HotelRow } from './row.ts';

const FIELDS = Object.keys(Hotel.properties) as (keyof Hotel)[];

/** Magic number of entries in this layout with these fields. An entry of a release that has another one is never read. */
export const MAGIC = magicOf(FIELDS);

/** Bytes that are encoded in one turn of the event loop: 100 usual hotels, or two of the maximum size. */
const TURN_BYTES = 128 * 1024;

export function magicOf(fields: readonly string[]): number {
  const text = JSON.stringify([Object.entries(layout).sort(), fields]);
  return hash('sha256', text, 'buffer').readUInt32LE();
}

/** Encodes a row that was read at the position `label`, as it reads at `nowMs` (epoch ms). */
export function encodeHotel(row: HotelRow, label: number, nowMs: number): Entry {
  const { certified, validFromMs, validUntilMs } = certificationOf(row, nowMs);
  const values: Record<keyof Hotel, unknown> = {
    ...row,
    images: row.images.map(({ url, caption }) => ({ url, caption: caption ?? null })),
    certified,
    certification_url: certified ? row.certification_url : null,
    registry_id: 0,
  };
  const ordered: Record<string, unknown> = {};
  for (const field of FIELDS) ordered[field] = values[field];
  // the registry id is appended as digits, which a number may not represent
  const shared = Buffer.from(JSON.stringify(ordered).slice(0, -'0}'.length));
  const end = `${row.registry_id ?? 'null'}}`;
  const hiddenUrl =
    certified || row.certification_url === null ? null : JSON.stringify(row.certification_url);
  const texts = [row.id, row.channel_id, row.registry_id, hiddenUrl];
  const bytes = allocate(label, texts, shared.length + end.length);
  const body = bytes.subarray(bytes.length - shared.length - end.length);
  shared.copy(body);
  body.write(end, shared.length);
  bytes.writeUInt32LE(body.length, layout.BODY_LENGTH_AT);
  bytes.writeUInt32LE(shared.length, layout.SHARED_LENGTH_AT);
  bytes.writeDoubleLE(validFromMs, layout.VALID_FROM_AT);
  bytes.writeDoubleLE(validUntilMs, layout.VALID_UNTIL_AT);
  const narrowTag = tagOf(shared);
  bytes.write(narrowTag, layout.NARROW_TAG_AT, 'latin1');
  bytes.write(row.registry_id === null ? narrowTag : tagOf(body), layout.FULL_TAG_AT, 'latin1');
  return new Entry(bytes);
}

/**
 * Returns an entry as it reads at `nowMs` (epoch ms): itself, or encoded again from its own body. Undefined if that is not the
 * body of a hotel: an entry in Redis may be forged.
 */
export function entryAt(entry: Entry, nowMs: number): Entry | undefined {
  if (entry.isValidAt(nowMs)) return entry;
  const { id, channelId: channel_id, registryId: registry_id, hiddenUrl, label } = entry;
  try {
    const { images, ...fields } = JSON.parse(entry.body('full').toString());
    // more or deeper values than any hotel has would take long
    if (images.length > MAX_IMAGES || ![fields, ...images].every(isFlat)) return undefined;
    const row: HotelRow = { ...fields, images, id, channel_id, registry_id };
    if (hiddenUrl !== '') row.certification_url = JSON.parse(hiddenUrl);
    const encoded = encodeHotel(row, label, nowMs);
    return encoded.bytes.length <= MAX_ENTRY_BYTES ? encoded : undefined;
  } catch {
    return undefined;
  }
}

function isFlat(values: object): boolean {
  return Object.values(values).every((value) => typeof value !== 'object' || value === null);
}

/**
 * Calls `encode` for each row, for a few of them in each turn of the event loop. `encode` returns the number of bytes that it has
 * made, or read in vain. A turn also ends after `BUDGET_MS`, because a forged entry may take milliseconds.
 */
export async function encodeInTurns<Row>(
  rows: readonly Row[],
  owner: string,
  eventLoop: EventLoop,
  encode: (row: Row) => number,
): Promise<void> {
  let at = 0;
  let bytes = 0;
  const encodeNext = () => {
    bytes = 0;
    const untilMs = monotonicMs() + BUDGET_MS;
    do bytes += encode(rows[at++]!);
    while (at < rows.length && bytes < TURN_BYTES && monotonicMs() < untilMs);
  };
  // Rows hold a place at PostgreSQL, or of a load, until they are encoded: they do not wait behind the owner's other work. A turn
  // weighs as much as the last one.
  while (at < rows.length) await eventLoop.run(`rows of ${owner}`, workOf(bytes), encodeNext);
}

/** Returns the entry that states that no hotel had this key when it was read at `label`. It has this key alone, and no body. */
export function encodeAbsence(namespace: Namespace, key: string, label: number): Buffer {
  const keys: (string | null)[] = [null, null, null];
  keys[numberOf(namespace)] = key;
  return allocate(label, keys, 0);
}

/** Returns the bytes of an entry with its label, its keys and its hidden URL, and with room for a body. */
function allocate(label: number, keysAndUrl: readonly (string | null)[], bodyLength: number): Buffer {
  const texts = keysAndUrl.map((text) => Buffer.from(text ?? ''));
  const bytes = Buffer.concat([Buffer.alloc(layout.HEADER_BYTES), ...texts, Buffer.alloc(bodyLength)]);
  bytes.writeUInt32LE(MAGIC, layout.MAGIC_AT);
  bytes.writeDoubleLE(label, layout.LABEL_AT);
  // the length of the URL follows those of the keys
  texts.forEach(({ length }, i) => void bytes.writeUInt16LE(length, layout.KEY_LENGTHS_AT + 2 * i));
  return bytes;
}

/** Nine bytes are twelve characters. Two bodies of one hotel share a tag with a probability of 2^-72. */
function tagOf(view: Buffer): string {
  return hash('sha1', view, 'base64url').slice(0, layout.TAG_BYTES);
}

/** Returns whether a hotel is certified at `nowMs`, and from when until when that is right. */
function certificationOf({ certified_from: from, certified_until: until }: HotelRow, nowMs: number) {
  if (from === null || until === null || from > until)
    return { certified: false, validFromMs: -Infinity, validUntilMs: Infinity };
  const startsAtMs = Date.parse(from);
  const endsAtMs = Date.parse(until) + DAY_MS;
  if (nowMs < startsAtMs) return { certified: false, validFromMs: -Infinity, validUntilMs: startsAtMs };
  if (nowMs >= endsAtMs) return { certified: false, validFromMs: endsAtMs, validUntilMs: Infinity };
  return { certified: true, validFromMs: startsAtMs, validUntilMs: endsAtMs };
}
