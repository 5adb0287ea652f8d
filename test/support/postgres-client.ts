import { randomBytes } from 'node:crypto';
import postgres, { type Options, type PostgresType, type Sql, type TransactionSql } from 'postgres';
import { closeAtEnd } from './cleanup.ts';
import type { FreshDatabase } from './database.ts';

/** Opens a client of any server, by default with one connection; it is closed at the end of the file. */
export function postgresClient(url: string, options: Options<Record<string, PostgresType>> = {}): Sql {
  const sql = postgres(url, { max: 1, onnotice: () => {}, ...options });
  closeAtEnd('a client of PostgreSQL', () => sql.end({ timeout: 1 }));
  return sql;
}

/** Waits until a statement in this database waits for a lock. */
export async function untilBlocked(sql: Sql): Promise<void> {
  for (;;) {
    const blocked = await sql`
      select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    if (blocked.length > 0) return;
  }
}

/**
 * Returns the sessions of this database that wait for a lock of hotels. pg_locks shows the sessions of all
 * databases, and databases made from one template give a table the same number.
 */
export const waitingForHotels = (sql: Sql | TransactionSql) => sql`
  select from pg_locks where relation = 'hotels'::regclass and not granted
    and database = (select oid from pg_database where datname = current_database())`;

/** Returns the address of a server with another database, login or password. */
export function addressOf(
  url: string,
  other: { database?: string; username?: string; password?: string },
): string {
  const { database, ...login } = other;
  return Object.assign(new URL(url), { ...(database && { pathname: `/${database}` }), ...login }).href;
}

/** Creates a login without any right; it is dropped at the end of the file. Returns its name and its address of the database. */
export async function newLogin({ sql, ownerUrl }: FreshDatabase): Promise<{ login: string; url: string }> {
  const login = `login_${randomBytes(4).toString('hex')}`;
  await sql.unsafe(`create role ${login} login password '${login}'`);
  closeAtEnd(`login ${login}`, async () => {
    await sql.unsafe(`drop owned by ${login}; drop role ${login}`).simple();
  });
  return { login, url: addressOf(ownerUrl, { username: login, password: login }) };
}
