import type { Sql } from 'postgres';

/**
 * Opens a database, and again for a pooler if the settings of the first connection did not reach the server: PgBouncer in
 * transaction mode rejects most of them, or drops them (`ignore_startup_parameters`). The caller closes `sql`. After an error
 * it is unknown whether they arrive, so it is thrown; `explain` is called first, and may throw one that says what to do.
 */
export async function openDetected(
  open: (pooled: boolean) => Sql,
  explain?: (sql: Sql) => Promise<void>,
): Promise<{ sql: Sql; pooled: boolean }> {
  const sql = open(false);
  try {
    if (await settingsArrive(sql)) return { sql, pooled: false };
  } catch (error) {
    try {
      await explain?.(sql);
    } finally {
      sql.end({ timeout: 0 }).catch(() => {});
    }
    throw error;
  }
  sql.end({ timeout: 0 }).catch(() => {});
  return { sql: open(true), pooled: true };
}

async function settingsArrive(sql: Sql): Promise<boolean> {
  try {
    // without parameters it is not prepared, which a pooler might not support
    const [row] = await sql.unsafe<{ arrived: boolean }[]>(
      "select source = 'client' as arrived from pg_settings where name = 'statement_timeout'",
    );
    return row!.arrived;
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code === '08P01' && message.includes('startup parameter')) return false;
    throw error;
  }
}
