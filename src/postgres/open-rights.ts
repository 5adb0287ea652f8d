import type { Sql } from 'postgres';
import { HAS_OWN_NAME, IS_OWN_TABLE } from './analyze.ts';
import { SERVING_ROLE } from './connect.ts';

/** Warns that CONNECT is granted to PUBLIC, as it is by default. */
export const OPEN_TO_ALL_LOGINS =
  'Warning: CONNECT on the database is granted to PUBLIC, so every login of the server may connect, and stop the service by locks. ' +
  'Run, as the owner of the database: grant connect on database NAME to hotel_api_serve, and to each operator and writer; ' +
  'revoke connect, temporary on database NAME from public';

/**
 * Returns a warning for each kind of rights by which another login, or a stolen one of the service, can do harm that `migrate` does
 * not prevent: the owner of the database may want them.
 */
export async function warnOfOpenRights(sql: Sql): Promise<string[]> {
  const [found] = await sql<[{ isOpen: boolean; creators: string[]; schemas: string[]; copies: string[] }]>`
    select has_database_privilege('public', current_database(), 'connect') as "isOpen",
      array(
        select distinct case grantee when 0 then 'public' else grantee::regrole::text end as role
        from pg_class, aclexplode(relacl)
        where ${sql.unsafe(IS_OWN_TABLE)} and privilege_type = 'TRIGGER' and grantee <> relowner order by role
      ) as creators,
      array(
        select oid::regnamespace::text as schema from pg_namespace
        where has_schema_privilege('public', oid, 'create') order by schema
      ) as schemas,
      array(
        select distinct relnamespace::regnamespace::text as schema from pg_class
        where ${sql.unsafe(HAS_OWN_NAME)} and relkind in ('r', 'p', 'v', 'm', 'f') and relpersistence <> 't'
          and relnamespace <> (select relnamespace from pg_class where oid = to_regclass('hotels'))
          and has_schema_privilege(${SERVING_ROLE}, relnamespace, 'usage') and has_any_column_privilege(${SERVING_ROLE}, oid, 'select')
        order by schema
      ) as copies`;
  const [creators = '', schemas = '', copies = ''] = [found.creators, found.schemas, found.copies].map(
    (names) => names.join(', '),
  );
  return [
    found.isOpen ? OPEN_TO_ALL_LOGINS : '',
    creators &&
      `Warning: ${creators} may create triggers on tables of the service. They run with the rights of whoever writes ` +
        `there, the owner among them. Run, as the owner: revoke trigger on hotels, api_keys, collections, collection_hotels from ${creators}`,
    schemas &&
      `Warning: every login may create tables in ${schemas}. A stolen login of the service can have tables of its own read ` +
        `in place of the hotels and the keys. Run, as the owner: revoke create on schema ${schemas} from public`,
    copies &&
      `Warning: ${SERVING_ROLE} may read tables of the same names in ${copies}. A stolen login of the service can have them served ` +
        'in place of the hotels and the keys. Keep copies and other installations in another database.',
  ].filter((warning) => warning !== '');
}
