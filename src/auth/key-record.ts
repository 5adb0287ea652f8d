import { MAC_BYTES, type MacSecret } from '../lib/mac.ts';
import type { RateLimit } from '../rate-limit/rate-limit.ts';

/** Record of a key in PostgreSQL; `null` in a time means never. */
export interface KeyRecord {
  id: string;
  scopes: string[];
  expiresAtMs: number | null;
  revoked: boolean;
  rateLimit: RateLimit | null;
  /** the collection whose hotels it sees; null: it sees all hotels */
  collection: string | null;
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
  collection_id: string | null;
}

export const KEY_COLUMNS = `encode(key_sha256, 'hex') as sha256, id, scopes,
  (extract(epoch from expires_at) * 1000)::float8 as expires_at_ms, revoked_at is not null as revoked,
  rate_limit_requests, rate_limit_window_s, collection_id`;

/** A record with the label of its read; `record` null: there was no such key. */
export interface LabelledKey {
  label: number;
  record: KeyRecord | null;
}

/** HEK5. Each format of the record has its own number, so that no release reads a record of another format. */
const MAGIC = 0x354b4548;
const LABEL_AT = 4;
const MAC_AT = 12;
const RECORD_AT = MAC_AT + MAC_BYTES;

export function keyOf(row: KeyRow, label: number): LabelledKey {
  const { id, scopes, expires_at_ms, revoked, rate_limit_requests, rate_limit_window_s } = row;
  const rateLimit =
    rate_limit_requests === null
      ? null
      : { requests: rate_limit_requests, windowMs: 1000 * rate_limit_window_s! };
  return {
    label,
    record: { id, scopes, expiresAtMs: expires_at_ms, revoked, rateLimit, collection: row.collection_id },
  };
}

/**
 * A key as Redis holds it: u32 magic, f64 label, 16 bytes of authentication code, then the record as JSON. The code covers
 * the magic, the label, the record, and `name`, under which the value is stored (a prefix and the sha256 of the key). A
 * client with write access to Redis therefore cannot create a key, or make an older state of it newer.
 */
export function encodeKey(name: string, { label, record }: LabelledKey, secret: MacSecret): Buffer {
  const json = JSON.stringify(record);
  const bytes = Buffer.allocUnsafe(RECORD_AT + Buffer.byteLength(json));
  bytes.writeUInt32LE(MAGIC);
  bytes.writeDoubleLE(label, LABEL_AT);
  bytes.write(json, RECORD_AT);
  secret.mac(signed(name, bytes)).copy(bytes, MAC_AT);
  return bytes;
}

/** Decodes a value that Redis returned for `name`; undefined if it is corrupt, or not written there by the service. */
export function decodeKey(name: string, bytes: Buffer, secret: MacSecret): LabelledKey | undefined {
  if (bytes.length <= RECORD_AT || bytes.readUInt32LE() !== MAGIC) return undefined;
  if (!secret.verifies(signed(name, bytes), bytes.subarray(MAC_AT, RECORD_AT))) return undefined;
  return { label: bytes.readDoubleLE(LABEL_AT), record: JSON.parse(bytes.toString('utf8', RECORD_AT)) };
}

/** Input of the code of a value. It contains the length of the name, so that no byte moves from one part to another. */
function signed(name: string, bytes: Buffer): string {
  return `${name.length}:${name}${bytes.toString('latin1', 0, MAC_AT)}${bytes.toString('latin1', RECORD_AT)}`;
}
