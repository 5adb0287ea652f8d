import { hash } from 'node:crypto';
import { DAY_MS } from '../wasm/constants.ts';
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
  MAGIC,
  MAGIC_AT,
  NARROW_TAG_AT,
  NO_DAY,
  PRESENT,
  REGISTRY_LENGTH_AT,
  RESERVED_AT,
  SHARED_LENGTH_AT,
  TAG_BYTES,
  UNTIL_DAY_AT,
  URL_LENGTH_AT,
  VALID_UNTIL_AT,
} from './entry-layout.ts';

interface Parts {
  label: number;
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
  bytes.writeUInt32LE(MAGIC, MAGIC_AT);
  bytes.writeDoubleLE(parts.label, LABEL_AT);
  bytes.writeDoubleLE(validUntilMs, VALID_UNTIL_AT);
  bytes.writeInt32LE(fromDay, FROM_DAY_AT);
  bytes.writeInt32LE(untilDay, UNTIL_DAY_AT);
  bytes.writeUInt32LE(bodyLength, BODY_LENGTH_AT);
  bytes.writeUInt32LE(sharedLength, SHARED_LENGTH_AT);
  bytes.writeUInt32LE(head.length, CERTIFICATION_AT);
  bytes.writeUInt16LE(certification.length, CERTIFICATION_LENGTH_AT);
  bytes.writeUInt16LE(id.length, ID_LENGTH_AT);
  bytes.writeUInt16LE(channelId.length, CHANNEL_LENGTH_AT);
  bytes.writeUInt16LE(urlLength, URL_LENGTH_AT);
  bytes[REGISTRY_LENGTH_AT] = registryId.length;
  bytes[FLAGS_AT] = PRESENT;
  bytes.writeUInt16LE(0, RESERVED_AT);
  let offset = HEADER_BYTES + keys.copy(bytes, HEADER_BYTES);
  offset += bytes.write(keptUrl, offset);
  const body = offset;
  offset += head.copy(bytes, offset);
  offset += certification.copy(bytes, offset);
  tail.copy(bytes, offset);
  // nine bytes are twelve characters; two bodies of one hotel share a tag with a probability of 2^-72
  const tagOf = (view: Buffer) => hash('sha1', view, 'base64url').slice(0, TAG_BYTES);
  const narrowTag = tagOf(bytes.subarray(body, body + sharedLength));
  bytes.write(narrowTag, NARROW_TAG_AT, 'latin1');
  bytes.write(registryId.length === 0 ? narrowTag : tagOf(bytes.subarray(body)), FULL_TAG_AT, 'latin1');
  return bytes;
}

function showDay(day: number): string {
  return day === NO_DAY ? 'null' : `"${new Date(day * DAY_MS).toISOString().slice(0, 10)}"`;
}
