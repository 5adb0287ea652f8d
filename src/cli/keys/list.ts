import type { Row } from 'postgres';
import { isoTime } from '../../lib/iso-time.ts';
import { columns } from '../common/columns.ts';
import { oneLine } from '../common/printable.ts';
import { print, withDatabase } from '../common/session.ts';
import { limitOf, written } from './limit.ts';

/** Prints all keys. */
export async function list({ json }: { json?: boolean }): Promise<void> {
  const rows = await withDatabase(
    (sql) => sql`
      select *, (select max(last_used_at) from hotel_api_usage where key_id = id) as last_used_at,
        case when revoked_at <= now() then 'revoked' when expires_at <= now() then 'expired'
        when rotated_to is not null then 'rotated' else 'active' end as state
      from api_keys order by created_at, id`,
  );
  const keys = rows.map(listed);
  const none = 'There are no keys yet. Create one: hotel-api keys create --name NAME';
  print(json, keys, keys.length === 0 ? none : table(keys));
}

/**
 * Returns a key in a list. Times are ISO, in UTC; `rotated`: still valid, until `expires_at`; `last_used_at`: within the last 90
 * days, to the minute.
 */
function listed(row: Row) {
  return {
    id: row.id as string,
    name: row.name as string,
    scopes: row.scopes as string[],
    created_at: isoTime(row.created_at)!,
    expires_at: isoTime(row.expires_at),
    revoked_at: isoTime(row.revoked_at),
    rate_limit: written(limitOf(row)),
    collection: row.collection_id as string | null,
    rotated_to: row.rotated_to as string | null,
    created_by: row.created_by as string,
    created_note: row.created_note as string | null,
    revoked_by: row.revoked_by as string | null,
    revoked_note: row.revoked_note as string | null,
    last_used_at: isoTime(row.last_used_at),
    state: row.state as 'active' | 'rotated' | 'expired' | 'revoked',
  };
}

function table(keys: ReturnType<typeof listed>[]): string {
  const rows = keys.map((key) => [
    key.id,
    oneLine(key.name),
    key.scopes.join(',') || '-',
    key.rate_limit ?? '-',
    key.collection === null ? 'all hotels' : oneLine(key.collection),
    key.created_at.slice(0, 19),
    key.expires_at?.slice(0, 19) ?? 'never',
    key.last_used_at?.slice(0, 16) ?? '-',
    key.state === 'rotated' ? `rotated to ${key.rotated_to}, valid until ${key.expires_at}` : key.state,
  ]);
  rows.unshift(
    'ID,NAME,SCOPES,RATE LIMIT,COLLECTION,CREATED (UTC),EXPIRES (UTC),LAST USED (UTC),STATE'.split(','),
  );
  return columns(rows);
}
