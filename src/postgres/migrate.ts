import { hash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../lib/failure.ts';
import { IS_OWN_TABLE } from './logins.ts';

const SQL_DIRECTORY = fileURLToPath(new URL('../../sql', import.meta.url));
const MINIMUM_SERVER = 150_000;
/** Number of collisions with other processes that migrate, over one file, by which one gives up. */
const MAX_RACES = 20;
/**
 * Pattern of a migration that older releases tolerate: `009-more.from-008.sql` changes nothing that releases of
 * version 8 and later use. Without the suffix only its own release and later ones work.
 */
const WORKS_FROM = /\.from-(\d{3})\.sql$/;

/** Row of `schema_migrations`. */
interface AppliedMigration {
  version: number;
  /** file name */
  name: string;
  /** hexadecimal */
  sha256: string;
}

interface Migration extends AppliedMigration {
  text: string;
}

/**
 * Applies the missing files `NNN-name.sql` of `directory` in order, each in a transaction together with its row in
 * `schema_migrations`, corrects when triggers fire, and updates the statistics of the tables. Any number of processes may
 * start at once: one migrates, the others wait. Migrations of newer releases that tolerate this one remain. Throws a `Failure`
 * if the server is too old, the database is too new for this release, or an applied file has changed.
 */
export async function migrate(sql: Sql, directory?: string): Promise<{ applied: string[]; version: number }> {
  const migrations = await readMigrations(directory);
  await requireServer(sql);
  const applied: string[] = [];
  for (let races = 0; ; ) {
    try {
      const done = await sql.begin((transaction) => applyNext(transaction, migrations));
      if (done === undefined) break;
      applied.push(done);
      races = 0;
    } catch (error) {
      if (!isRace(error) || ++races === MAX_RACES) throw error;
      await sleep(20 + Math.random() * 80);
    }
  }
  await sql`select hotel_api_correct_triggers()`;
  await analyzeTables(sql);
  return { applied, version: lastOf(await readApplied(sql)) };
}

/**
 * Updates the planner's statistics of the tables of the schema, up to the first autovacuum. Tables that are locked, as by
 * another process that does this, and those of another owner are skipped.
 */
export async function analyzeTables(sql: Sql): Promise<void> {
  const tables = await sql<{ name: string }[]>`
    select oid::regclass::text as name from pg_class where ${sql.unsafe(IS_OWN_TABLE)} order by relname`;
  if (tables.length > 0)
    await sql.unsafe(`analyze (skip_locked) ${tables.map(({ name }) => name).join(', ')}`);
}

/** Returns the version of the schema that this release needs. */
export async function knownVersion(): Promise<number> {
  return lastOf(await readMigrations());
}

/** Returns the last version of ordered migrations. */
function lastOf(migrations: AppliedMigration[]): number {
  return migrations.at(-1)?.version ?? 0;
}

/** Reads the applied migrations in order of version. */
function readApplied(sql: Sql | TransactionSql): PromiseLike<AppliedMigration[]> {
  return sql<AppliedMigration[]>`
    select version, name, sha256 from schema_migrations order by version`;
}

/**
 * Checks server and schema at the start of the service. Throws a `Failure` that says what to do unless this release
 * works with them.
 */
export async function requireSchema(sql: Sql, directory?: string): Promise<void> {
  let applied: AppliedMigration[];
  try {
    await requireServer(sql);
    applied = (await requireVisibleTables(sql)) ? await readApplied(sql) : [];
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    // the server may translate the rest of the message
    if (!message.includes('hotel_api_serve')) throw error;
    if (code === '42501')
      throw new Failure(
        'The login of DATABASE_URL may not assume the role hotel_api_serve. ' +
          'Run, as a login that may grant the role: grant hotel_api_serve to LOGIN',
      );
    // the service connects as a role that the migrations create
    if (code !== '22023') throw error;
    applied = [];
  }
  const lacking = firstLacking(await readMigrations(directory), applied);
  if (lacking) throw new Failure(`The database's schema lacks sql/${lacking.name}. Run: hotel-api migrate`);
  await requireTriggers(sql);
}

/** Throws a `Failure` if changes would not be recorded, as after a restore that disabled and enabled the triggers. */
async function requireTriggers(sql: Sql): Promise<void> {
  const wrong = await sql<{ table: string }[]>`
    select distinct "table"::text from hotel_api_wrong_triggers order by 1`;
  if (wrong.length === 0) return;
  throw new Failure(
    `Triggers of ${wrong.map(({ table }) => table).join(', ')} are disabled, or fire in the wrong sessions, so changes ` +
      'would be missed. Run, as the owner: select hotel_api_invalidate()',
  );
}

/**
 * Throws a `Failure` if row-level security hides all rows of a table from the service, as if no hotel and no key existed, or if
 * the tables are in a schema that its search path lacks. Returns true if migrations were applied.
 */
async function requireVisibleTables(sql: Sql): Promise<boolean> {
  type Found = { migrated: boolean; role: string; login: string; elsewhere: string | null; hidden: string[] };
  const [found] = await sql<Found[]>`
    select to_regclass('schema_migrations') is not null as migrated, current_user as role,
      quote_ident(session_user) as login, (
        select quote_ident(nspname) from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where relname = 'hotel_api_log' and relkind = 'r' and to_regclass('hotel_api_log') is null
        limit 1) as elsewhere, array(
      select oid::regclass::text from pg_class as tables
      where ${sql.unsafe(IS_OWN_TABLE)} and relrowsecurity
        and has_table_privilege(oid, 'select')
        and not (select rolbypassrls from pg_roles where rolname = current_user)
        and not exists (
          select from pg_policy, unnest(polroles) as role
          where polrelid = tables.oid and polpermissive and polcmd in ('r', '*')
            and (role = 0 or pg_has_role(role, 'usage')))
      order by relname) as hidden`;
  const { migrated, role, login, elsewhere, hidden } = found!;
  if (hidden.length > 0) {
    const policies = hidden.map(
      (name) => `create policy hotel_api on ${name} to hotel_api_serve using (true);`,
    );
    throw new Failure(
      `Row-level security hides all rows of ${hidden.join(', ')} from ${role}. ` +
        `Run, as their owner: ${policies.join(' ')}`,
    );
  }
  if (!migrated && elsewhere !== null)
    throw new Failure(
      `The tables are in the schema ${elsewhere}, which is not in the search_path of the service. ` +
        `Run: alter role ${login} set search_path = ${elsewhere}`,
    );
  return migrated;
}

/**
 * Applies the first missing file in one transaction, after waiting for the lock and checking the applied ones.
 * Returns its name.
 */
async function applyNext(transaction: TransactionSql, migrations: Migration[]): Promise<string | undefined> {
  await transaction`
    create table if not exists schema_migrations (
      version integer primary key,
      name text not null,
      sha256 text not null,
      applied_at timestamptz not null default now()
    )`;
  // one process at a time migrates a database; any login could hold an advisory lock
  await transaction`lock table schema_migrations in share row exclusive mode`;
  const rows = await readApplied(transaction);
  const next = firstLacking(migrations, rows);
  const changed = migrations.find(({ version, sha256 }) =>
    rows.some((row) => row.version === version && row.sha256 !== sha256),
  );
  if (changed)
    throw new Failure(
      `sql/${changed.name} was changed after it was applied to this database as version ${changed.version}. ` +
        'Restore the file as it was released, and put the change into a new file with the next number.',
    );
  if (!next) return undefined;
  // functions that the file creates keep this path (`set search_path from current`)
  await transaction`select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)`;
  try {
    await transaction.unsafe(next.text).simple();
  } catch (error) {
    if (isRace(error)) throw error;
    const { message, code } = error as { message: string; code?: string };
    throw new Failure(`sql/${next.name} failed and was rolled back (${code}): ${message}`);
  }
  await transaction`
    insert into schema_migrations (version, name, sha256) values (${next.version}, ${next.name}, ${next.sha256})`;
  return next.name;
}

/** Reads the files in order of version. */
async function readMigrations(directory = SQL_DIRECTORY): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => /^\d{3}-.+\.sql$/.test(name)).sort();
  const migrations = names.map(async (name) => {
    const text = await readFile(`${directory}/${name}`, 'utf8');
    return { version: Number(name.slice(0, 3)), name, text, sha256: hash('sha256', text, 'hex') };
  });
  return Promise.all(migrations);
}

async function requireServer(sql: Sql): Promise<void> {
  const [row] = await sql`
    select current_setting('server_version_num')::int as number, current_setting('server_version') as name,
      current_setting('server_encoding') as encoding, current_database() as database`;
  if (row!.number < MINIMUM_SERVER) {
    throw new Failure(
      `The server is PostgreSQL ${row!.name}; hotel-api needs PostgreSQL 15 or newer. Upgrade it.`,
    );
  }
  if (row!.encoding !== 'UTF8') {
    throw new Failure(
      `The database ${row!.database} has the encoding ${row!.encoding}; hotel-api needs UTF8. ` +
        `Create another one: create database NAME template template0 encoding 'UTF8'`,
    );
  }
}

/**
 * Returns the first migration that a database lacks. Of two branches, the one with the smaller number may be applied later.
 * Throws a `Failure` if the database has an unknown one that does not tolerate this release.
 */
function firstLacking(migrations: Migration[], applied: AppliedMigration[]): Migration | undefined {
  const known = lastOf(migrations);
  const isIn = (others: AppliedMigration[], { version }: AppliedMigration) =>
    others.some((other) => other.version === version);
  const worksFrom = ({ name }: AppliedMigration) => Number(WORKS_FROM.exec(name)?.[1] ?? Infinity);
  const breaking = applied.find((row) => !isIn(migrations, row) && worksFrom(row) > known);
  if (breaking)
    throw new Failure(
      `The database's schema is at version ${lastOf(applied)}, this release knows versions up to ${known} and does not work ` +
        `with ${breaking.name}. Deploy the release that made it, or a newer one.`,
    );
  return migrations.find((migration) => !isIn(applied, migration));
}

/**
 * Returns true for a collision of two migrations that no lock orders: over the table that they lock and its type, or over the
 * role, which belongs to the whole server.
 */
function isRace(error: unknown): boolean {
  const { code, message, table_name } = error as { code?: string; message: string; table_name?: string };
  return (
    (code === 'XX000' && message.includes('tuple concurrently')) ||
    (code === '23505' && /^pg_/.test(table_name ?? '')) ||
    (code === '42710' && /hotel_api_serve|schema_migrations/.test(message))
  );
}
