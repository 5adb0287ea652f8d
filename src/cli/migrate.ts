import { knownVersion, migrate } from '../postgres/migrate.ts';
import { warnOfOpenRights } from '../postgres/open-rights.ts';
import { makeServingLogin } from '../postgres/pooler.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/print.ts';
import { withDatabase } from './common/session.ts';

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
    for (const warning of await warnOfOpenRights(sql)) process.stderr.write(`${warning}\n`);
    return migrated;
  });
  const known = await knownVersion();
  const newer = `The schema is newer than this release (${known}), which supports it.`;
  print(json, result, result.version > known ? newer : '');
}
