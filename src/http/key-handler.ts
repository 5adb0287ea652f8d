import { publicErrors } from '../errors.ts';
import { isoTime } from '../lib/iso-time.ts';
import type { Origin } from '../postgres/origin.ts';
import { tagOf } from './head.ts';
import type { GetOperation } from './operations.ts';

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

/** Creates the handler of `GET /key`, which describes the key of the request and never contains it. */
export function keyOperation(origin: Origin): GetOperation {
  return {
    route: 'key',
    read: () => '',
    respond: async (exchange) => {
      const details = await readKeyDetails(origin, exchange.owner);
      if (!details) return exchange.fail(publicErrors.unauthorized);
      const body = Buffer.from(JSON.stringify(details));
      exchange.ok(body, tagOf(body));
    },
  };
}

/** Reads a key from PostgreSQL, because caches hold its rights alone. Undefined: it was deleted. Throws `Unavailable`. */
async function readKeyDetails(origin: Origin, id: string): Promise<KeyDetails | undefined> {
  const [row] = await origin.rows<Omit<KeyDetails, 'id' | 'expires_at'> & { expires_at: number | null }>(
    `select name, scopes,
      case when collection_id is not null then
        json_build_object('id', collection_id, 'name', (select name from collections where id = collection_id))
      end as collection,
      (extract(epoch from expires_at) * 1000)::float8 as expires_at,
      case when rate_limit_requests is not null then
        json_build_object('requests', rate_limit_requests, 'window_seconds', rate_limit_window_s)
      end as rate_limit
    from api_keys where id = $1`,
    [id],
    id,
    'keys',
  );
  if (!row) return undefined;
  const { name, scopes, collection, expires_at: atMs, rate_limit } = row;
  const expires_at = isoTime(atMs === null ? null : new Date(atMs));
  return { id, name, scopes, collection, expires_at, rate_limit };
}
