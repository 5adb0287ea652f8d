import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Examples } from './screen.ts';

/**
 * Creates a folder with the demo's commands. `key`, `narrow` and `collection` are headers for curl, `hotel-api` is the command
 * line on the demo's database, and `sql` runs a statement there. Only its owner may read it.
 */
export async function makeTools(demo: Examples & { ownerUrl: string }): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'hotel-'));
  const program = (file: string) =>
    [
      '#!/bin/sh',
      `export DATABASE_URL=${quote(demo.ownerUrl)} HOTEL_API_KEY=${quote(demo.fullKey)}`,
      `exec ${quote(process.execPath)} ${quote(fileURLToPath(new URL(file, import.meta.url)))} "$@"`,
      '',
    ].join('\n');
  const put = (name: string, text: string, mode: number) => writeFile(join(folder, name), text, { mode });
  const keys = { key: demo.fullKey, narrow: demo.narrowKey, collection: demo.collectionKey };
  for (const [name, key] of Object.entries(keys)) await put(name, `x-api-key: ${key}\n`, 0o600);
  await put('hotel-api', program('../main.ts'), 0o700);
  await put('sql', program('./sql.ts'), 0o700);
  return folder;
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
