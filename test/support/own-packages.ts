import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { temporaryFolder } from './cleanup.ts';
import { needsInstalled } from './needs.ts';

const CACHE = join(import.meta.dirname, '../../node_modules/.cache');

/**
 * Installs the packages of a folder that has a package.json and a lock file of its own. Returns a copy of the folder with
 * them, which is removed at the end of the file. If npm fails, the tests of the file are skipped with one sentence. In CI
 * that is an error.
 */
export async function needsPackages(source: string): Promise<string> {
  const installed = join(CACHE, basename(source));
  await needsInstalled(`What ${basename(source)} has in its package.json`, () => install(source, installed));
  // not below node_modules, where Node runs no TypeScript
  const folder = await temporaryFolder(`${basename(source)}-`);
  await cp(source, folder, { recursive: true });
  await symlink(join(installed, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Installs what the lock file says, unless it is there. */
async function install(source: string, installed: string): Promise<void> {
  const files = ['package.json', 'package-lock.json'];
  const wanted = (await Promise.all(files.map((file) => readFile(join(source, file), 'utf8')))).join('');
  const mark = join(installed, 'node_modules/.installed');
  if ((await readFile(mark, 'utf8').catch(() => '')) === wanted) return;
  await mkdir(installed, { recursive: true });
  for (const file of files) await cp(join(source, file), join(installed, file));
  const options = ['ci', '--ignore-scripts', '--no-audit', '--no-fund'];
  await promisify(execFile)('npm', options, { cwd: installed });
  await writeFile(mark, wanted);
}
