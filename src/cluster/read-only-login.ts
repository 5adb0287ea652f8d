import type { Sql } from 'postgres';
import { Failure } from '../lib/failure.ts';

/**
 * Throws a `Failure` if the login may write hotels or keys. Through a pooler a worker cannot drop rights for a
 * session.
 */
export async function requireReadOnlyLogin(sql: Sql): Promise<void> {
  const rows = await sql<{ login: string; may_write: boolean }[]>`
    select current_user as login,
      bool_or(has_table_privilege(name, 'insert, update, delete, truncate')) as may_write
    from unnest(array[
      'hotels', 'api_keys', 'hotel_api_changes', 'hotel_api_feed_position', 'hotel_api_change_log', 'hotel_api_change_log_state',
      'collections', 'collection_hotels', 'hotel_api_member_log'
    ]) as name`;
  const { login, may_write } = rows[0]!;
  if (!may_write) return;
  throw new Failure(
    `The login ${login} of DATABASE_URL may write. With DATABASE_DIRECT_URL set it must be a member of hotel_api_serve and of nothing else`,
  );
}
