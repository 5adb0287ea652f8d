import { existsSync } from 'node:fs';
import { glob, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathOf } from './programs.ts';

/** Returns the folder of the newest server that the system's pg_dump supports: the embedded one comes without pg_dump. */
export async function serverPrograms(): Promise<string | undefined> {
  const folders: string[] = [];
  for await (const folder of glob('/usr/lib/postgresql/*/bin')) folders.push(folder);
  folders.sort((a, b) => Number(b.split('/')[4]) - Number(a.split('/')[4]));
  const dump = await pathOf('pg_dump');
  if (dump) folders.push(dirname(await realpath(dump)));
  return folders.find((folder) => ['initdb', 'postgres'].every((name) => existsSync(join(folder, name))));
}
