import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, realpath, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from '../../src/demo/servers/programs.ts';
import { run } from '../support/run.ts';
import type { Buildah } from './buildah.ts';

const CACHE = fileURLToPath(new URL('../../node_modules/.cache/hotel-api', import.meta.url));
const RELEASE = 'trixie';
const DEBOOTSTRAP_TIMEOUT_MS = 420_000;

/**
 * Commits a substitute for the official image of a version of Node, which is unreachable here. It has the same Debian by
 * debootstrap, that Node from the npm registry, and the npm of this machine, at the same paths.
 */
export async function commitBase(buildah: Buildah, name: string, version: string): Promise<void> {
  const node = await installNode(version);
  const debian = await bootstrapDebian();
  const npm = dirname(dirname(await realpath((await findProgram(['npm']))!)));
  const container = (await buildah.run('from', 'scratch')).trim();
  await buildah.run('add', container, debian, '/');
  await buildah.run('copy', container, node, '/usr/local/bin/node');
  await buildah.run('copy', container, npm, '/usr/local/lib/node_modules/npm');
  const link = ['ln', '-s', '../lib/node_modules/npm/bin/npm-cli.js', '/usr/local/bin/npm'];
  await buildah.run('run', '--isolation', 'chroot', container, '--', ...link);
  const path = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  await buildah.run('config', '--env', path, container);
  await buildah.run('commit', '--rm', container, name);
}

/** Returns the program of that version, from the package that the npm package `node` installs on this platform. */
async function installNode(version: string): Promise<string> {
  const name = `node-${process.platform}-${process.arch}`;
  const folder = join(CACHE, `node-${version}`);
  const program = join(folder, 'node_modules', name, 'bin/node');
  if (existsSync(program)) return program;
  await mkdir(folder, { recursive: true });
  const options = ['--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund'];
  await run('npm', ['install', ...options, `${name}@${version}`], { cwd: folder });
  return program;
}

/** Returns the archive of a Debian, created once. Its packages are verified by the keys of Debian. */
async function bootstrapDebian(): Promise<string> {
  const archive = join(CACHE, `debian-${RELEASE}-${process.arch}.tar`);
  if (existsSync(archive)) return archive;
  await mkdir(CACHE, { recursive: true });
  const work = await mkdtemp(join(CACHE, 'debootstrap-'));
  try {
    const root = join(work, 'root');
    // Node's image adds libatomic1
    const options = ['--variant=minbase', '--include=ca-certificates,libatomic1'];
    await run((await findProgram(['debootstrap']))!, [...options, RELEASE, root, ...(await readMirror())], {
      timeout: DEBOOTSTRAP_TIMEOUT_MS,
    });
    const without = ['--exclude=./var/cache/apt', '--exclude=./var/lib/apt/lists'];
    await run('tar', ['-C', root, '-cf', join(work, 'tar'), ...without, '.']);
    await rename(join(work, 'tar'), archive);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return archive;
}

/** Returns the machine's Debian mirror; empty if unknown, then debootstrap uses its default. */
async function readMirror(): Promise<string[]> {
  const read = (path: string) => readFile(path, 'utf8').catch(() => '');
  const lines =
    (await read('/etc/apt/sources.list.d/debian.sources')) + (await read('/etc/apt/sources.list'));
  return /^(?:URIs:|deb)\s+(http\S+\/debian\/?)\s/m.exec(lines)?.slice(1) ?? [];
}
