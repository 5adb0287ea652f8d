import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

// where system packages put programs that are not on every user's PATH
const MORE_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/local/bin', '/opt/homebrew/bin'];

/** The path of the first of these programs that is there and may be run, the PATH first. */
export async function findProgram(names: string[]): Promise<string | undefined> {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...MORE_FOLDERS].filter(Boolean);
  for (const name of names) {
    for (const folder of folders) {
      const path = join(folder, name);
      const runs = await access(path, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (runs) return path;
    }
  }
  return undefined;
}
