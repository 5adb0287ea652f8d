import type { View } from '../hotels/entry.ts';
import type { RateLimit } from '../rate-limit/rate-limit.ts';
import type { KeyRecord } from './key-record.ts';

/** What the holder of a valid key may do. */
export interface Principal {
  readonly keyId: string;
  readonly view: View;
  readonly expiresAtMs: number;
  /** null: it may ask as often as it likes */
  readonly limit: RateLimit | null;
  /** the collection whose hotels it sees; null: it sees all hotels */
  readonly collection: string | null;
}

/** What a key gives access to, whether or not it has expired; null: nothing, for it is revoked. */
export function principalOf({
  id,
  scopes,
  expiresAtMs,
  revoked,
  rateLimit,
  collection,
}: KeyRecord): Principal | null {
  if (revoked) return null;
  const view = scopes.includes('registry') ? 'full' : 'narrow';
  return { keyId: id, view, expiresAtMs: expiresAtMs ?? Infinity, limit: rateLimit, collection };
}

/** The access while it lasts, then null; the end of a key is a time of the wall clock. */
export function unlessExpired(principal: Principal | null, wallMs: number): Principal | null {
  return principal !== null && wallMs < principal.expiresAtMs ? principal : null;
}
