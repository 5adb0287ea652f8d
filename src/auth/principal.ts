import type { View } from '../hotels/entry.ts';
import type { RateLimit } from '../rate-limit/rate-limit.ts';

/** Rights of an API key that is not revoked, as the caches hold them. */
export interface Principal {
  readonly keyId: string;
  readonly view: View;
  /** epoch ms; Infinity: never */
  readonly expiresAtMs: number;
  /** null: the key has no rate limit */
  readonly limit: RateLimit | null;
  /** the collection whose hotels the key sees; null: all hotels */
  readonly collection: string | null;
}

/** Returns true if two keys, or one at two times, see the same of the same hotels. */
export function seesAlike(one: Principal, other: Principal): boolean {
  return one.view === other.view && one.collection === other.collection;
}

/** A row of `api_keys` as `KEY_QUERY` selects it. */
export interface KeyRow {
  id: string;
  scopes: string[];
  expires_at_ms: number | null;
  rate_limit_requests: number | null;
  rate_limit_window_s: number | null;
  collection_id: string | null;
}

/** Query of the key with the sha256 $1 in hexadecimal. A revoked key is an unknown one. */
export const KEY_QUERY = `select id, scopes, (extract(epoch from expires_at) * 1000)::float8 as expires_at_ms,
  rate_limit_requests, rate_limit_window_s, collection_id
  from api_keys where key_sha256 = decode($1, 'hex') and revoked_at is null`;

/** Returns the rights of a key, whether or not it has expired. */
export function principalOf(row: KeyRow): Principal {
  const { rate_limit_requests: requests, rate_limit_window_s: windowS } = row;
  return {
    keyId: row.id,
    view: row.scopes.includes('registry') ? 'full' : 'narrow',
    expiresAtMs: row.expires_at_ms ?? Infinity,
    limit: requests === null ? null : { requests, windowMs: 1000 * windowS! },
    collection: row.collection_id,
  };
}

/** Returns the rights until they expire, then null. Expiry is a time of the wall clock. */
export function unlessExpired(principal: Principal | null, wallMs: number): Principal | null {
  return principal !== null && wallMs < principal.expiresAtMs ? principal : null;
}
