import { knownVersion, migrate } from '../postgres/migrate.ts';
import { print, withDatabase } from './session.ts';

/** Runs `migrate`. */
export async function migrateCommand({ json }: { json?: boolean }): Promise<void> {
  const result = await withDatabase((sql) => migrate(sql));
  const known = await knownVersion();
  const newer = result.version > known ? `, newer than this release (${known}), which supports it` : '';
  const applied = result.applied.map((name) => `applied ${name}`);
  print(json, result, [...applied, `The schema is at version ${result.version}${newer}.`].join('\n'));
}
