import type { Sql, TransactionSql } from 'postgres';
import { VARIABLES } from '../config/config.ts';
import { Failure } from '../lib/failure.ts';
import { KEEPALIVE, SERVING_ROLE, SETTINGS, servingSettings } from './connect.ts';

/** Condition that a row of pg_class has a name of the schema's tables. */
const HAS_OWN_NAME = `(relname in ('hotels', 'api_keys', 'collections', 'collection_hotels', 'schema_migrations')
  or starts_with(relname, 'hotel_api_'))`;

/** Condition that a row of pg_class is a table of the schema. */
export const IS_OWN_TABLE = `relnamespace = (select relnamespace from pg_class where oid = to_regclass('hotels'))
  and relkind in ('r', 'p') and ${HAS_OWN_NAME}`;

/** Predefined roles that can write every table. */
const WRITING_ROLES = ['pg_write_all_data', 'pg_write_server_files', 'pg_execute_server_program'];
/** Warns that CONNECT is granted to PUBLIC, as it is by default. */
export const OPEN_TO_ALL_LOGINS =
  'Warning: CONNECT on the database is granted to PUBLIC, so every login of the server may connect, and stop the service by locks. ' +
  'Run, as the owner of the database: grant connect on database NAME to hotel_api_serve, and to each operator and writer; ' +
  'revoke connect, temporary on database NAME from public';

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

/**
 * Throws a `Failure` if a login can write the tables of the service, or create tables that are read in their place: of the same
 * names, in a schema or in sessions that a pooler keeps. The rights are those of the login, of PUBLIC, and of every role that it
 * may assume. The message has the statements that take them away.
 */
async function requireReadOnly(sql: Sql | TransactionSql, login: string): Promise<void> {
  // one statement, in one session of the pooler: its own temporary tables may hide all others
  const [found] = await sql<[{ statements: (string | null)[]; isPoisoned: boolean }]>`
    select session_user = ${login} and pg_my_temp_schema() <> 0 or exists (
      select from pg_catalog.pg_class
      where ${sql.unsafe(HAS_OWN_NAME)} and relpersistence = 't' and pg_has_role(${login}::name, relowner, 'member')
    ) as "isPoisoned", array(
      with role as (
        select oid, rolname, rolname in (${login}, ${SERVING_ROLE}) as is_own,
          rolsuper or rolname = any(${WRITING_ROLES}::text[])
            -- before 16, it grants itself every other role
            or (rolcreaterole and current_setting('server_version_num')::integer < 160000) as writes
        from pg_catalog.pg_roles where pg_has_role(${login}::name, oid, 'member')
      ), object (name, owner, acl, columns, forbidden) as (
        select format('database %I', datname), datdba, coalesce(datacl, acldefault('d', datdba)), '', '{TEMPORARY,CREATE}'::text[]
        from pg_catalog.pg_database where datname = current_database()
        union all
        select format('schema %I', nspname), nspowner, coalesce(nspacl, acldefault('n', nspowner)), '', '{CREATE}'
        from pg_catalog.pg_namespace where nspname !~ '^pg_'
        union all
        select format('table %I.%I', nspname, relname), relowner, acl, columns, '{INSERT,UPDATE,DELETE,TRUNCATE,TRIGGER}'
        from pg_catalog.pg_class join pg_catalog.pg_namespace on pg_namespace.oid = relnamespace,
          lateral (
            select coalesce(relacl, acldefault('r', relowner)), ''
            union all
            select attacl, format(' (%I)', attname) from pg_catalog.pg_attribute where attrelid = pg_class.oid and attacl is not null and not attisdropped
          ) as granted (acl, columns)
        where ${sql.unsafe(HAS_OWN_NAME)} and relkind in ('r', 'p', 'v', 'm', 'f') and relpersistence <> 't'
      )
      select distinct statement
      from (
        select name, owner, columns, grantee, privilege_type
        from object, aclexplode(acl) where privilege_type = any(forbidden)
        union all
        select name, owner, columns, owner, '' from object
        union all
        select '', 0, '', oid, '' from role where writes
      ) as granted left join role on role.oid = grantee, lateral (
        select case when writes or grantee = owner then null else format('revoke %s%s on %s from %s',
            lower(privilege_type), columns, name, case when grantee = 0 then 'public' else quote_ident(rolname) end) end
        where grantee = 0 or is_own
        union all
        select format('revoke %s from %s', roleid::regrole, member::regrole) from pg_catalog.pg_auth_members
        where not is_own and member in (select oid from role where is_own)
          and roleid not in (select oid from role where is_own) and pg_has_role(roleid, grantee, 'member')
      ) as cure (statement)
      order by statement
    ) as statements`;
  const { statements, isPoisoned } = found;
  const cause = `The login ${login} may write what the service reads, or create tables that are read in its place`;
  if (statements.includes(null))
    throw new Failure(
      `${cause}, as an owner, a superuser or with CREATEROLE. Behind a pooler the service needs a login that owns nothing and is a member of ` +
        `${SERVING_ROLE} alone.`,
    );
  if (statements.length > 0)
    throw new Failure(
      `${cause}. The service cannot drop these rights behind a pooler. Run, as who granted them: ` +
        `${statements.join('; ')}. Then make the pooler reconnect, and grant others what they need.`,
    );
  if (isPoisoned)
    throw new Failure(
      `The login ${login} has left temporary tables in sessions of the pooler, which are read in place of those of the ` +
        `service. Make the pooler reconnect.`,
    );
}

/**
 * Returns a warning for each kind of rights by which another login, or a stolen one of the service, can do harm that `migrate` does
 * not prevent: the owner of the database may want them.
 */
export async function warnOfOpenRights(sql: Sql): Promise<string[]> {
  type Found = { isOpen: boolean; creators: string | null; schemas: string | null; copies: string | null };
  const [{ isOpen, creators, schemas, copies }] = await sql<[Found]>`
    select has_database_privilege('public', current_database(), 'connect') as "isOpen", (
        select string_agg(distinct case grantee when 0 then 'public' else grantee::regrole::text end, ', ')
        from pg_class, aclexplode(relacl)
        where ${sql.unsafe(IS_OWN_TABLE)} and privilege_type = 'TRIGGER' and grantee <> relowner
      ) as creators, (
        select string_agg(oid::regnamespace::text, ', ' order by nspname) from pg_namespace
        where has_schema_privilege('public', oid, 'create')
      ) as schemas, (
        select string_agg(distinct relnamespace::regnamespace::text, ', ') from pg_class
        where ${sql.unsafe(HAS_OWN_NAME)} and relkind in ('r', 'p', 'v', 'm', 'f') and relpersistence <> 't'
          and relnamespace <> (select relnamespace from pg_class where oid = to_regclass('hotels'))
          and has_schema_privilege(${SERVING_ROLE}, relnamespace, 'usage') and has_any_column_privilege(${SERVING_ROLE}, oid, 'select')
      ) as copies`;
  const warnings = [
    isOpen && OPEN_TO_ALL_LOGINS,
    creators &&
      `Warning: ${creators} may create triggers on tables of the service. They run with the rights of whoever writes ` +
        `there, the owner among them. Run, as the owner: revoke trigger on hotels, api_keys, collections, collection_hotels from ${creators}`,
    schemas &&
      `Warning: every login may create tables in ${schemas}. A stolen login of the service can have tables of its own read ` +
        `in place of the hotels and the keys. Run, as the owner: revoke create on schema ${schemas} from public`,
    copies &&
      `Warning: ${SERVING_ROLE} may read tables of the same names in ${copies}. A stolen login of the service can have them served ` +
        'in place of the hotels and the keys. Keep copies and other installations in another database.',
  ];
  return warnings.filter((warning) => typeof warning === 'string');
}
