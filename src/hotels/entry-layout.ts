import { hash } from 'node:crypto';
import { checksum } from './checksum.ts';

/**
 * Entry: a hotel in the caches, as the final JSON of the response behind a fixed header. Redis and the local cache hold
 * the same bytes. An entry may also state that a hotel is absent.
 *
 * Layout, little endian:
 *
 *     0  u32  lower half of the XXH64 of bytes 4 to the end
 *     4  u32  magic
 *     8  f64  version: of the database's sequence; half a step more for a deleted hotel
 *    16  f64  time at which `certified` flips, epoch ms; Infinity if it never does
 *    24  12 characters  tag of the narrow view (for ETag), 36  12 characters  tag of the full view
 *    48  i32  certified_from, 52  i32  certified_until: days since 1970-01-01, NO_DAY for null
 *    56  u32  body length, 60  u32  shared length: the part of the body that both views share
 *    64  u32  offset of the certification fields in the body, 68  u16  their length
 *    70  u16  id length, 72  u16  channel id length, 74  u16  certification URL length (as JSON, 0 for null)
 *    76  u8   registry id length (decimal digits, 0 for null), 77  u8  flags, 78  u16  zero
 *    80  id, channel id, registry id, certification URL, body
 *
 * `registry_id` is the last field of the body, so the narrow view is the shared part and `null}`. The certification URL
 * and both dates are stored beside the body, so that a flipped certification needs no query.
 */
export const MAGIC = 0x32444548;
export const HEADER_BYTES = 80;
export const NO_DAY = -0x80000000;
export const PRESENT = 1;
export const TOMBSTONE = 2;
export const DAY_MS = 86_400_000;

interface Parts {
  version: number;
  fromDay: number;
  untilDay: number;
  id: string;
  channelId: string | null;
  registryId: string | null;
  /** JSON */
  url: string;
  head: Buffer;
  tail: Buffer;
  /** length of the part of `tail` that both views share */
  sharedTailLength: number;
  nowMs: number;
}

/** Returns the bytes of an entry. */
export function assemble(parts: Parts): Buffer {
  const { fromDay, untilDay, head, tail, nowMs } = parts;
  const id = Buffer.from(parts.id);
  const channelId = Buffer.from(parts.channelId ?? '');
  const registryId = Buffer.from(parts.registryId ?? '');
  const keys = Buffer.concat([id, channelId, registryId]);
  const mayBeCertified = fromDay !== NO_DAY && untilDay !== NO_DAY && fromDay <= untilDay;
  const startsAtMs = fromDay * DAY_MS;
  const endsAtMs = (untilDay + 1) * DAY_MS;
  const certified = mayBeCertified && nowMs >= startsAtMs && nowMs < endsAtMs;
  let validUntilMs = Infinity;
  if (certified) validUntilMs = endsAtMs;
  else if (mayBeCertified && nowMs < startsAtMs) validUntilMs = startsAtMs;

  const keptUrl = parts.url === 'null' ? '' : parts.url;
  const certification = Buffer.from(
    `"certified":${certified},"certified_from":${showDay(fromDay)},"certified_until":${showDay(untilDay)},` +
      `"certification_url":${certified ? parts.url : 'null'}`,
  );
  const urlLength = Buffer.byteLength(keptUrl);
  const bodyLength = head.length + certification.length + tail.length;
  const sharedLength = head.length + certification.length + parts.sharedTailLength;
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + keys.length + urlLength + bodyLength);
  bytes.writeDoubleLE(parts.version, 8);
  bytes.writeDoubleLE(validUntilMs, 16);
  bytes.writeInt32LE(fromDay, 48);
  bytes.writeInt32LE(untilDay, 52);
  bytes.writeUInt32LE(bodyLength, 56);
  bytes.writeUInt32LE(sharedLength, 60);
  bytes.writeUInt32LE(head.length, 64);
  bytes.writeUInt16LE(certification.length, 68);
  bytes.writeUInt16LE(id.length, 70);
  bytes.writeUInt16LE(channelId.length, 72);
  bytes.writeUInt16LE(urlLength, 74);
  bytes[76] = registryId.length;
  bytes[77] = PRESENT;
  bytes.writeUInt16LE(0, 78);
  let offset = HEADER_BYTES + keys.copy(bytes, HEADER_BYTES);
  offset += bytes.write(keptUrl, offset);
  const body = offset;
  offset += head.copy(bytes, offset);
  offset += certification.copy(bytes, offset);
  tail.copy(bytes, offset);
  // nine bytes are twelve characters; two bodies of one hotel share a tag with a probability of 2^-72
  const tagOf = (view: Buffer) => hash('sha1', view, 'base64url').slice(0, 12);
  const narrowTag = tagOf(bytes.subarray(body, body + sharedLength));
  bytes.write(narrowTag, 24, 'latin1');
  bytes.write(registryId.length === 0 ? narrowTag : tagOf(bytes.subarray(body)), 36, 'latin1');
  return seal(bytes);
}

/** Writes the checksum; the bytes must not change afterwards. */
export function seal(bytes: Buffer): Buffer {
  bytes.writeUInt32LE(MAGIC, 4);
  bytes.writeUInt32LE(checksum(bytes.subarray(4)), 0);
  return bytes;
}

function showDay(day: number): string {
  return day === NO_DAY ? 'null' : `"${new Date(day * DAY_MS).toISOString().slice(0, 10)}"`;
}
