import { hash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../lib/failure.ts';

const SQL_DIRECTORY = fileURLToPath(new URL('../../sql', import.meta.url));
const MINIMUM_SERVER = 150_000;
/** pg_advisory_xact_lock: one starter at a time works on the schema of a database. */
const LOCK = 0x686f74656c;
const ATTEMPTS = 20;
/**
 * How the name of a file says that older releases go on working when it is applied: `009-more.from-008.sql` leaves
 * alone whatever the releases of version 8 and later use. Without it only its own release and later ones work.
 */
const WORKS_FROM = /\.from-(\d{3})\.sql$/;

interface Applied {
  version: number;
  /** file name */
  name: string;
}

interface Migration extends Applied {
  text: string;
  /** hexadecimal */
  sha256: string;
}

/**
 * Applies the files `NNN-name.sql` of `directory` that the database lacks, in order, each in a transaction
 * of its own together with its row in `schema_migrations`. Any number may start at once: the first works,
 * the others wait and find it done. Migrations of newer releases that work with this one are left as they are.
 * Throws a `Failure` when the server is too old, the database is newer than this release can live with, or a file
 * was changed after it was applied.
 */
export async function migrate(
  sql: Sql,
  directory = SQL_DIRECTORY,
): Promise<{ applied: string[]; version: number }> {
  const migrations = await readMigrations(directory);
  await requireServer(sql);
  const applied: string[] = [];
  for (;;) {
    const done = await retried(() => sql.begin((transaction) => applyNext(transaction, migrations)));
    if (done === undefined) return { applied, version: lastOf(await appliedTo(sql)) };
    applied.push(done);
  }
}

/** The version that this release brings a schema to. */
export async function knownVersion(directory = SQL_DIRECTORY): Promise<number> {
  return lastOf(await readMigrations(directory));
}

/** The version that ordered migrations lead to. */
function lastOf(migrations: Applied[]): number {
  return migrations.at(-1)?.version ?? 0;
}

/** What the database's schema is made of, in the order of the versions; nothing when it was never migrated. */
async function appliedTo(sql: Sql): Promise<Applied[]> {
  const [found] = await sql`select to_regclass('schema_migrations') is not null as present`;
  return found!.present ? sql<Applied[]>`select version, name from schema_migrations order by version` : [];
}

/** For the service at its start: throws a `Failure` that says what to do unless this release works with server and schema. */
export async function requireSchema(sql: Sql, directory = SQL_DIRECTORY): Promise<void> {
  const migrations = await readMigrations(directory);
  const expected = lastOf(migrations);
  let applied: Applied[];
  try {
    await requireServer(sql);
    applied = await appliedTo(sql);
  } catch (error) {
    if (/permission denied to set role/.test((error as Error).message)) {
      throw new Failure(
        'The login of DATABASE_URL may not assume the role hotel_api_serve. ' +
          'Run, as a login that may grant the role: grant hotel_api_serve to LOGIN',
      );
    }
    // The service connects in a role that the migrations make.
    if (!/role "hotel_api_serve" does not exist/.test((error as Error).message)) throw error;
    applied = [];
  }
  const version = lastOf(applied);
  if (version < expected) {
    throw new Failure(
      `The database's schema is at version ${version}, this release needs ${expected}. Run: hotel-api migrate`,
    );
  }
  // of two that were made at the same time the one with the smaller number may come later
  const lacking = migrations.find((migration) => !applied.some((row) => row.version === migration.version));
  if (lacking) throw new Failure(`The database's schema lacks sql/${lacking.name}. Run: hotel-api migrate`);
  const newer = applied.filter((row) => row.version > expected);
  const breaking = newer.find((migration) => !worksWith(expected, migration));
  if (breaking) throw newerThanCode(version, expected, breaking.name);
}

/** In one transaction: waits for its turn, checks what is applied, applies the first file that is not. Returns its name. */
async function applyNext(transaction: TransactionSql, migrations: Migration[]): Promise<string | undefined> {
  // A lock of the transaction and not of the session: it works behind PgBouncer and dies with its holder.
  await transaction`select pg_advisory_xact_lock(${LOCK})`;
  await transaction`
    create table if not exists schema_migrations (
      version integer primary key,
      name text not null,
      sha256 text not null,
      applied_at timestamptz not null default now()
    )`;
  const rows = await transaction<(Applied & { sha256: string })[]>`
    select version, name, sha256 from schema_migrations order by version`;
  const known = lastOf(migrations);
  for (const row of rows) {
    const file = migrations.find(({ version }) => version === row.version);
    if (!file && worksWith(known, row)) continue;
    if (!file) throw newerThanCode(lastOf(rows), known, row.name);
    if (file.sha256 !== row.sha256) {
      throw new Failure(
        `sql/${file.name} was changed after it was applied to this database as version ${file.version}. ` +
          'Restore the file as it was released, and put the change into a new file with the next number.',
      );
    }
  }
  const present = new Set(rows.map(({ version }) => version));
  const next = migrations.find(({ version }) => !present.has(version));
  if (!next) return undefined;
  // Functions that the file makes keep this path (`set search_path from current`).
  await transaction`select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)`;
  try {
    await transaction.unsafe(next.text).simple();
  } catch (error) {
    if (isRaceOverRoles(error)) throw error;
    const { message, code } = error as { message: string; code?: string };
    throw new Failure(`sql/${next.name} failed and was rolled back (${code}): ${message}`);
  }
  await transaction`
    insert into schema_migrations (version, name, sha256) values (${next.version}, ${next.name}, ${next.sha256})`;
  return next.name;
}

/** Throws a `Failure` where two files have one number: the second would never be applied. */
async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => /^\d{3}-.+\.sql$/.test(name)).sort();
  names.forEach((name, i) => {
    const before = names[i - 1];
    if (before?.slice(0, 3) !== name.slice(0, 3)) return;
    throw new Failure(
      `sql/${before} and sql/${name} have the same number. Give the newer one the next number.`,
    );
  });
  const migrations = names.map(async (name) => {
    const text = await readFile(`${directory}/${name}`, 'utf8');
    return { version: Number(name.slice(0, 3)), name, text, sha256: hash('sha256', text, 'hex') };
  });
  return Promise.all(migrations);
}

async function requireServer(sql: Sql): Promise<void> {
  const [row] =
    await sql`select current_setting('server_version_num')::int as number, current_setting('server_version') as name`;
  if (row!.number < MINIMUM_SERVER) {
    throw new Failure(
      `The server is PostgreSQL ${row!.name}; hotel-api needs PostgreSQL 15 or newer. Upgrade it.`,
    );
  }
}

/** True of a migration that is newer than a release that knows versions up to `known`, and that it can live with. */
function worksWith(known: number, { version, name }: Applied): boolean {
  const from = WORKS_FROM.exec(name)?.[1];
  return version > known && from !== undefined && Number(from) <= known;
}

function newerThanCode(found: number, known: number, breaking: string): Failure {
  return new Failure(
    `The database's schema is at version ${found}, this release knows versions up to ${known} and does not work ` +
      `with ${breaking}. Deploy the release that made it, or a newer one.`,
  );
}

/** Roles belong to the whole server, so the advisory lock of one database does not order two of them. */
function isRaceOverRoles(error: unknown): boolean {
  const { code, message, table_name } = error as { code?: string; message: string; table_name?: string };
  return (
    (code === 'XX000' && message.includes('tuple concurrently')) ||
    (code === '23505' && /^pg_auth/.test(table_name ?? '')) ||
    (code === '42710' && message.includes('role'))
  );
}

async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (attempt === ATTEMPTS || !isRaceOverRoles(error)) throw error;
      await sleep(20 + Math.random() * 80);
    }
  }
}
