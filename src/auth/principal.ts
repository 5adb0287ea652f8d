import type { View } from '../hotels/entry.ts';
import type { RateLimit } from '../rate-limit/rate-limit.ts';

/** Rights of an API key that is not revoked, as the caches hold them. */
export interface Principal {
  readonly keyId: string;
  readonly view: View;
  /** epoch ms; null: never */
  readonly expiresAtMs: number | null;
  /** null: the key has no rate limit */
  readonly limit: RateLimit | null;
  /** the collection whose hotels the key sees; null: all hotels */
  readonly collection: string | null;
}

/** Returns true if two keys, or one at two times, see the same of the same hotels. */
export function seesAlike(one: Principal, other: Principal): boolean {
  return one.view === other.view && one.collection === other.collection;
}

export interface KeyRow {
  principal: Principal;
}

/** Query of the key with the sha256 $1 in hexadecimal, whether or not it has expired. A revoked key is an unknown one. */
export const KEY_QUERY = `select json_build_object(
    'keyId', id,
    'view', case when 'registry' = any(scopes) then 'full' else 'narrow' end,
    'expiresAtMs', extract(epoch from nullif(expires_at, 'infinity')) * 1000,
    'limit', case when rate_limit_requests is not null then
      json_build_object('requests', rate_limit_requests, 'windowMs', 1000 * rate_limit_window_s) end,
    'collection', collection_id
  ) as principal
  from api_keys where key_sha256 = decode($1, 'hex') and revoked_at is null`;

/** Returns the rights until they expire, then null. Expiry is a time of the wall clock. */
export function unlessExpired(principal: Principal | null, wallMs: number): Principal | null {
  return wallMs < (principal?.expiresAtMs ?? Infinity) ? principal : null;
}
