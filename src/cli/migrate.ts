import {
  isOpenToAllLogins,
  knownVersion,
  migrate,
  openSchemas,
  triggerCreators,
} from '../postgres/migrate.ts';
import { makeServingLogin } from '../postgres/pooler.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/print.ts';
import { withDatabase } from './common/session.ts';

/** Printed while CONNECT is granted to PUBLIC. */
export const OPEN_TO_ALL_LOGINS =
  'Warning: CONNECT on the database is granted to PUBLIC, so every login of the server may connect, and stop the service by locks. ' +
  'Run, as the owner of the database: grant connect on database NAME to hotel_api_serve, and to each operator and writer; ' +
  'revoke connect, temporary on database NAME from public';

/** Printed for the roles that may create triggers. */
const triggersFor = (roles: string[]) =>
  `Warning: ${roles.join(', ')} may create triggers on tables of the service. They run with the rights of whoever writes ` +
  `there, the owner among them. Run, as the owner: revoke trigger on hotels, api_keys, collections, collection_hotels from ${roles.join(', ')}`;

/** Printed for the schemas in which every login may create tables. */
const openFor = (schemas: string[]) =>
  `Warning: every login may create tables in ${schemas.join(', ')}. A stolen login of the service can have tables of its own read ` +
  `in place of the hotels and the keys. Run, as the owner: revoke create on schema ${schemas.join(', ')} from public`;

export function addCommand(program: CliCommand): void {
  program
    .command('migrate')
    .description('bring the schema of the database to this release; safe to start many times at once')
    .option(
      '--serving-login <login>',
      'then give this login the rights and settings of the service, as a pooler requires',
    )
    .json('{"applied","version"}')
    .examples(
      'DATABASE_URL=postgres://hotel@localhost/hotels hotel-api migrate',
      'DATABASE_URL=postgres://hotel@localhost/hotels hotel-api migrate --serving-login service',
    )
    .action(run);
}

async function run({ json, servingLogin }: { json?: boolean; servingLogin?: string }): Promise<void> {
  const result = await withDatabase(async (sql) => {
    const migrated = await migrate(sql);
    if (servingLogin !== undefined) await makeServingLogin(sql, servingLogin);
    if (await isOpenToAllLogins(sql)) process.stderr.write(`${OPEN_TO_ALL_LOGINS}\n`);
    const creators = await triggerCreators(sql);
    if (creators.length > 0) process.stderr.write(`${triggersFor(creators)}\n`);
    const schemas = await openSchemas(sql);
    if (schemas.length > 0) process.stderr.write(`${openFor(schemas)}\n`);
    return migrated;
  });
  const known = await knownVersion();
  const newer = `The schema is newer than this release (${known}), which supports it.`;
  print(json, result, result.version > known ? newer : '');
}
