import { cp, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../documents/files.ts';
import { temporaryFolder } from '../support/cleanup.ts';

/** Copies the service into a new folder, with further migrations by file name. Returns the path of its command line. */
export async function makeRelease(migrations: Record<string, string>, prefix = 'release-'): Promise<string> {
  const folder = await temporaryFolder(prefix);
  for (const part of ['src', 'sql', 'docs/api/clients', 'package.json'])
    await cp(join(ROOT, part), join(folder, part), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const [name, text] of Object.entries(migrations)) await writeFile(join(folder, 'sql', name), text);
  return join(folder, 'src/main.ts');
}
