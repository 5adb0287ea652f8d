import { isoTime } from '../lib/iso-time.ts';
import type { Origin } from '../postgres/origin.ts';

/** Rights and limits of a key, as its holder sees them. */
export interface KeyDetails {
  id: string;
  name: string;
  scopes: string[];
  /** null: the key sees all hotels; `name` null: the collection does not exist */
  collection: { id: string; name: string | null } | null;
  /** ISO time in UTC; null: never */
  expires_at: string | null;
  rate_limit: { requests: number; window_seconds: number } | null;
}

interface Row {
  name: string;
  scopes: string[];
  collection_id: string | null;
  collection_name: string | null;
  expires_at_ms: number | null;
  rate_limit_requests: number | null;
  rate_limit_window_s: number | null;
}

/** Reads a key from PostgreSQL, because caches hold its rights alone. Undefined: it was deleted. Throws `Unavailable`. */
export async function readKeyDetails(origin: Origin, id: string): Promise<KeyDetails | undefined> {
  const [row] = await origin.rows<Row>(
    `select key.name, scopes, collection_id, (select name from collections where id = collection_id) as collection_name,
      (extract(epoch from expires_at) * 1000)::float8 as expires_at_ms, rate_limit_requests, rate_limit_window_s
    from api_keys as key where id = $1`,
    [id],
    id,
    'keys',
  );
  if (!row) return undefined;
  const { name, scopes, collection_id, collection_name, rate_limit_requests, rate_limit_window_s } = row;
  return {
    id,
    name,
    scopes,
    collection: collection_id === null ? null : { id: collection_id, name: collection_name },
    expires_at: isoTime(row.expires_at_ms === null ? null : new Date(row.expires_at_ms)),
    rate_limit:
      rate_limit_requests === null
        ? null
        : { requests: rate_limit_requests, window_seconds: rate_limit_window_s! },
  };
}
