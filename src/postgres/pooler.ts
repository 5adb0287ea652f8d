import type { Sql } from 'postgres';

/**
 * Opens a database, and again for a pooler if the settings of the first connection did not reach the server: PgBouncer in
 * transaction mode rejects most of them, or drops them (`ignore_startup_parameters`). The caller closes `sql`.
 */
export async function openDetected(open: (pooled: boolean) => Sql): Promise<{ sql: Sql; pooled: boolean }> {
  const sql = open(false);
  try {
    if (await settingsArrive(sql)) return { sql, pooled: false };
  } catch (error) {
    sql.end({ timeout: 0 }).catch(() => {});
    throw error;
  }
  sql.end({ timeout: 0 }).catch(() => {});
  return { sql: open(true), pooled: true };
}

/** Returns true for other errors of the server: the next query meets them again, where they are explained. */
async function settingsArrive(sql: Sql): Promise<boolean> {
  try {
    // without parameters it is not prepared, which a pooler might not support
    const [row] = await sql.unsafe<{ arrived: boolean }[]>(
      "select source = 'client' as arrived from pg_settings where name = 'statement_timeout'",
    );
    return row!.arrived;
  } catch (error) {
    const { code, message, severity } = error as { code?: string; message: string; severity?: string };
    if (code === '08P01' && message.includes('startup parameter')) return false;
    if (severity === undefined) throw error;
    return true;
  }
}
