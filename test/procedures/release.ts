import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeAtEnd } from '../support/cleanup.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Creates a release with further migrations, by file name. Returns the path of its command line. */
export async function makeRelease(migrations: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'release-'));
  closeAtEnd('release', () => rm(folder, { recursive: true, force: true }));
  for (const part of ['src', 'sql', 'package.json'])
    await cp(join(ROOT, part), join(folder, part), { recursive: true });
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const [name, text] of Object.entries(migrations)) await writeFile(join(folder, 'sql', name), text);
  return join(folder, 'src/main.ts');
}
