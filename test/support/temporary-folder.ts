import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeAtEnd } from './cleanup.ts';

/** Creates a folder whose name begins with this; it is removed at the end of the file. */
export async function temporaryFolder(prefix: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), prefix));
  closeAtEnd(`folder ${folder}`, () => rm(folder, { recursive: true, force: true }));
  return folder;
}
