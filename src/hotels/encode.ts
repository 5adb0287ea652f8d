import { assemble, DAY_MS, seal } from './assemble.ts';
import { Entry } from './entry.ts';
import {
  FLAGS_AT,
  FROM_DAY_AT,
  HEADER_BYTES,
  ID_LENGTH_AT,
  NO_DAY,
  TOMBSTONE,
  UNTIL_DAY_AT,
  VALID_UNTIL_AT,
  VERSION_AT,
} from './entry-layout.ts';

import type { Hotel } from './hotel.ts';
import type { HotelRow } from './row.ts';

/** Fields behind the certification; the narrow view hides the last one. */
type AfterHead =
  | 'certified'
  | 'certified_from'
  | 'certified_until'
  | 'certification_url'
  | 'channel_id'
  | 'registry_id';

/** Encodes a row as it reads at `nowMs` (epoch ms). */
export function encodeHotel(row: HotelRow, nowMs: number): Entry {
  const images = [];
  for (const { url, caption } of row.images) images.push({ url, caption: caption ?? null });
  const head = JSON.stringify({
    id: row.id,
    name: row.name,
    description: row.description,
    address: row.address,
    postal_code: row.postal_code,
    city: row.city,
    country_code: row.country_code,
    latitude: row.latitude,
    longitude: row.longitude,
    language: row.language,
    star_rating: row.star_rating,
    room_count: row.room_count,
    website_url: row.website_url,
    email: row.email,
    images,
  } satisfies Omit<Hotel, AfterHead>);
  const sharedTail = `,"channel_id":${JSON.stringify(row.channel_id)},"registry_id":`;
  const bytes = assemble({
    version: row.version,
    fromDay: dayOf(row.certified_from),
    untilDay: dayOf(row.certified_until),
    id: row.id,
    channelId: row.channel_id,
    registryId: row.registry_id,
    url: row.certification_url === null ? 'null' : JSON.stringify(row.certification_url),
    head: Buffer.from(`${head.slice(0, -1)},`),
    tail: Buffer.from(`${sharedTail}${row.registry_id ?? 'null'}}`),
    sharedTailLength: Buffer.byteLength(sharedTail),
    nowMs,
  });
  return new Entry(bytes);
}

/** Returns the version of the absence of a hotel: above `version`, below every later one. */
export function versionOfRemoved(version: number): number {
  return version + 0.5;
}

/** Encodes the absence of the hotel with this id since `version` (0: it was never known). */
export function encodeAbsence(id: string, version: number): Entry {
  return encodeWithoutBody(id, version, 0);
}

/** Encodes a tombstone: every entry older than `version` is outdated. */
export function encodeTombstone(id: string, version: number): Entry {
  return encodeWithoutBody(id, version, TOMBSTONE);
}

function encodeWithoutBody(id: string, version: number, flags: number): Entry {
  const key = Buffer.from(id);
  const bytes = Buffer.alloc(HEADER_BYTES + key.length);
  bytes.writeDoubleLE(version, VERSION_AT);
  bytes.writeDoubleLE(Infinity, VALID_UNTIL_AT);
  bytes.writeInt32LE(NO_DAY, FROM_DAY_AT);
  bytes.writeInt32LE(NO_DAY, UNTIL_DAY_AT);
  bytes.writeUInt16LE(key.length, ID_LENGTH_AT);
  bytes[FLAGS_AT] = flags;
  key.copy(bytes, HEADER_BYTES);
  return new Entry(seal(bytes));
}

function dayOf(date: string | null): number {
  return date === null ? NO_DAY : Date.parse(`${date}T00:00:00Z`) / DAY_MS;
}
