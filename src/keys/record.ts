import { crc32 } from 'node:zlib';
import type { RateLimit } from './rate-limit.ts';

/** What is known of a key, as PostgreSQL says it; `null` fields of time mean never. */
export interface KeyRecord {
  id: string;
  scopes: string[];
  expiresAtMs: number | null;
  revoked: boolean;
  rateLimit: RateLimit | null;
}

/** A row of `api_keys` as `KEY_COLUMNS` selects it. */
export interface KeyRow {
  sha256: string;
  id: string;
  scopes: string[];
  expires_at_ms: number | null;
  revoked: boolean;
  rate_limit_requests: number | null;
  rate_limit_window_s: number | null;
  version: number;
}

/** The select list that yields a `KeyRow`. */
export const KEY_COLUMNS = `encode(key_sha256, 'hex') as sha256, id, scopes,
  (extract(epoch from expires_at) * 1000)::float8 as expires_at_ms, revoked_at is not null as revoked,
  rate_limit_requests, rate_limit_window_s, version::float8`;

/** A record with its version; `record` null: no such key is known. */
export interface VersionedKey {
  version: number;
  record: KeyRecord | null;
}

/** HEK2: another one for each form of the record, so that no release takes another's for its own. */
const MAGIC = 0x324b4548;
const FORMER_MAGICS = [0x314b4548];
const HEADER_BYTES = 16;

/** Reads a row. */
export function keyOf(row: KeyRow): VersionedKey {
  const { id, scopes, expires_at_ms, revoked, rate_limit_requests, rate_limit_window_s, version } = row;
  const rateLimit =
    rate_limit_requests === null
      ? null
      : { requests: rate_limit_requests, windowMs: 1000 * rate_limit_window_s! };
  return { version, record: { id, scopes, expiresAtMs: expires_at_ms, revoked, rateLimit } };
}

/**
 * A key as Redis holds it, with the same head as a hotel's entry: u32 crc32 of the rest, u32 magic, f64 version;
 * then as JSON the key's sha256 (a value under another name is no value of that name) and the record.
 */
export function encodeKey(sha256: string, { version, record }: VersionedKey): Buffer {
  const json = JSON.stringify([sha256, record]);
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + Buffer.byteLength(json));
  bytes.writeUInt32LE(MAGIC, 4);
  bytes.writeDoubleLE(version, 8);
  bytes.write(json, HEADER_BYTES);
  bytes.writeUInt32LE(crc32(bytes.subarray(4)), 0);
  return bytes;
}

/** Reads what Redis held for the key with this sha256; undefined when it is damaged or no such value. */
export function decodeKey(sha256: string, bytes: Buffer): VersionedKey | undefined {
  if (bytes.length <= HEADER_BYTES || bytes.readUInt32LE(4) !== MAGIC) return undefined;
  if (crc32(bytes.subarray(4)) !== bytes.readUInt32LE(0)) return undefined;
  const [owner, record] = JSON.parse(bytes.toString('utf8', HEADER_BYTES));
  return owner === sha256 ? { version: bytes.readDoubleLE(8), record } : undefined;
}

/** True for what an earlier release has written: it is read again from PostgreSQL, and is no fault. */
export function isOfFormerRelease(bytes: Buffer): boolean {
  return bytes.length > HEADER_BYTES && FORMER_MAGICS.includes(bytes.readUInt32LE(4));
}
