import { knownVersion, migrate } from '../postgres/migrate.ts';
import type { CliCommand } from './common/help.ts';
import { print, withDatabase } from './common/session.ts';

export function addCommand(program: CliCommand): void {
  program
    .command('migrate')
    .description('bring the schema of the database to this release; safe to start many times at once')
    .json('{"applied","version"}')
    .examples('DATABASE_URL=postgres://hotel@localhost/hotels hotel-api migrate')
    .action(run);
}

async function run({ json }: { json?: boolean }): Promise<void> {
  const result = await withDatabase((sql) => migrate(sql));
  const known = await knownVersion();
  const newer = result.version > known ? `, newer than this release (${known}), which supports it` : '';
  const applied = result.applied.map((name) => `applied ${name}`);
  print(json, result, [...applied, `The schema is at version ${result.version}${newer}.`].join('\n'));
}
