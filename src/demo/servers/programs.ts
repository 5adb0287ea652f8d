import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

// folders of system packages that are not on every user's PATH
const MORE_FOLDERS = ['/usr/local/sbin', '/usr/sbin', '/sbin', '/usr/local/bin', '/opt/homebrew/bin'];

/** Returns the path of the first of these programs that exists and is executable; the PATH is searched first. */
export async function findProgram(names: string[]): Promise<string | undefined> {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ...MORE_FOLDERS].filter(Boolean);
  for (const path of names.flatMap((name) => folders.map((folder) => join(folder, name)))) {
    const fault = await access(path, constants.X_OK).catch((error: Error) => error);
    if (!fault) return path;
  }
  return undefined;
}
