import type { Sql } from 'postgres';
import { makeServingLogin, warnOfOpenRights } from '../postgres/logins.ts';
import { knownVersion, migrate } from '../postgres/migrate.ts';
import type { CliCommand } from './common/help.ts';
import { onDatabase } from './common/session.ts';

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
    .action(onDatabase(run));
}

async function run(sql: Sql, { servingLogin }: { servingLogin?: string }) {
  const printed = await migrate(sql);
  if (servingLogin !== undefined) await makeServingLogin(sql, servingLogin);
  for (const warning of await warnOfOpenRights(sql)) process.stderr.write(`${warning}\n`);
  const known = await knownVersion();
  const newer = `The schema is newer than this release (${known}), which supports it.`;
  return { printed, note: printed.version > known ? newer : '' };
}
