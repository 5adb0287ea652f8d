import type { View } from '../hotels/entry.ts';
import type { RateLimit } from '../rate-limit/rate-limit.ts';
import type { KeyRecord } from './key-record.ts';

/** Rights of a valid API key. */
export interface Principal {
  readonly keyId: string;
  readonly view: View;
  readonly expiresAtMs: number;
  /** null: the key has no rate limit */
  readonly limit: RateLimit | null;
  /** the collection whose hotels the key sees; null: all hotels */
  readonly collection: string | null;
}

/** Returns the rights of a key, whether or not it has expired, or null for a revoked key. */
export function principalOf(record: KeyRecord): Principal | null {
  if (record.revoked) return null;
  const { id, scopes, expiresAtMs, rateLimit, collection } = record;
  const view = scopes.includes('registry') ? 'full' : 'narrow';
  return { keyId: id, view, expiresAtMs: expiresAtMs ?? Infinity, limit: rateLimit, collection };
}

/** Returns the rights until they expire, then null. Expiry is a time of the wall clock. */
export function unlessExpired(principal: Principal | null, wallMs: number): Principal | null {
  return principal !== null && wallMs < principal.expiresAtMs ? principal : null;
}
