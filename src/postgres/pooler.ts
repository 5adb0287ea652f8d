import type { Sql } from 'postgres';
import { VARIABLES } from '../config/config.ts';
import { Failure } from '../lib/failure.ts';
import { KEEPALIVE, SERVING_ROLE, SETTINGS, servingSettings } from './connect.ts';
import { requireReadOnly } from './rights.ts';

/**
 * Opens a database, and again for a pooler if the settings of the first connection did not reach the server: PgBouncer in
 * transaction mode rejects most of them, or drops them (`ignore_startup_parameters`). The caller closes `sql`. Throws another
 * error of the server: it is unknown then whether they arrive.
 */
export async function openDetected(open: (pooled: boolean) => Sql): Promise<{ sql: Sql; pooled: boolean }> {
  const sql = open(false);
  let arrived = false;
  try {
    // without parameters it is not prepared, which a pooler might not support
    const [row] = await sql.unsafe<{ arrived: boolean }[]>(
      "select source = 'client' as arrived from pg_catalog.pg_settings where name = 'statement_timeout'",
    );
    arrived = row!.arrived;
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code !== '08P01' || !message.includes('startup parameter')) throw error;
  } finally {
    if (!arrived) sql.end({ timeout: 0 }).catch(() => {});
  }
  return arrived ? { sql, pooled: false } : { sql: open(true), pooled: true };
}

/**
 * Gives an existing login what the service needs behind a pooler: membership of the serving role, and the settings that
 * the service cannot send there. Throws a `Failure` if the login has other rights to write or create tables, or if this
 * connection may not change it; each says what to run.
 */
export async function makeServingLogin(sql: Sql, login: string): Promise<void> {
  const found = await sql`select from pg_roles where rolname = ${login} and rolcanlogin`;
  if (found.length === 0) throw new Failure(`There is no login ${login}. Create it with its password first.`);
  const settings = { ...servingSettings(VARIABLES.DATABASE_TIMEOUT_MS.default), ...KEEPALIVE };
  const [grant] = await sql<[{ statement: string }]>`
    select format('grant %I to %I', ${SERVING_ROLE}::text, ${login}::text) as statement`;
  const statements = [grant.statement, ...(await statementsFor(sql, login, settings))].join(';\n');
  await sql
    .begin(async (transaction) => {
      await transaction.unsafe(statements).simple();
      await requireReadOnly(transaction, login);
    })
    .catch((error: Error & { code?: string }) => {
      if (error.code !== '42501') throw error;
      throw new Failure(
        `The login of DATABASE_URL may not change ${login} (${error.message}). Run, as one that may:\n${statements};`,
      );
    });
}

/**
 * Checks the login of a connection of the service through a pooler, where it can neither drop rights nor send settings.
 * Throws a `Failure` if the login may write or create tables, or lacks settings. `timeoutMs`: deadline of its queries.
 */
export async function requireServingLogin(sql: Sql, timeoutMs: number): Promise<void> {
  const [{ login }] = await sql<[{ login: string }]>`select session_user as login`;
  await requireReadOnly(sql, login);
  await requireSettings(sql, servingSettings(timeoutMs), ` Or: hotel-api migrate --serving-login ${login}`);
}

/** Checks the login of a command's connection through a pooler. Throws a `Failure` if it lacks settings. */
export function requireOperatorSettings(sql: Sql): Promise<void> {
  const { jit: _, ...affectingResults } = SETTINGS;
  return requireSettings(sql, { ...affectingResults, default_transaction_read_only: 'off' });
}

async function requireSettings(sql: Sql, needed: Record<string, string>, otherCure = ''): Promise<void> {
  const found = await sql<{ name: string; setting: string; login: string }[]>`
    select name, setting, session_user as login from pg_catalog.pg_settings where name = any(${Object.keys(needed)}::text[])
      -- on by default, but without effect on a server that cannot compile
      and (name <> 'jit' or pg_jit_available())`;
  const missing: Record<string, string> = {};
  for (const { name, setting } of found)
    if (!fits(name, setting, needed[name]!)) missing[name] = needed[name]!;
  if (Object.keys(missing).length === 0) return;
  const { login } = found[0]!;
  const cure = await statementsFor(sql, login, missing);
  throw new Failure(
    `DATABASE_URL leads through a pooler, which passes no settings, and the login ${login} lacks ${Object.keys(missing).join(', ')}. ` +
      `Run: ${cure.join('; ')}. Then make the pooler reconnect.${otherCure}`,
  );
}

function fits(name: string, setting: string, needed: string): boolean {
  if (name.endsWith('_timeout')) return setting !== '0';
  if (name === 'extra_float_digits') return Number(setting) >= Number(needed);
  return setting.startsWith(needed);
}

/** Returns the statements that give a login these settings, with names and values quoted. */
async function statementsFor(sql: Sql, login: string, settings: Record<string, string>): Promise<string[]> {
  const rows = await sql<{ statement: string }[]>`
    select format('alter role %I set %s = %L', ${login}::text, name, value) as statement
    from unnest(${Object.keys(settings)}::text[], ${Object.values(settings)}::text[]) as setting (name, value)`;
  return rows.map(({ statement }) => statement);
}
