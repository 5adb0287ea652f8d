import { existsSync } from 'node:fs';
import { glob, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { findProgram } from '../../src/demo/servers/programs.ts';
import { FAKETIME_LIBRARIES } from './fake-clock.ts';

/** Program by its names, or file by its paths; one suffices. */
interface Wanted {
  programs?: readonly string[];
  files?: readonly string[];
  package: string;
}

/**
 * Programs and libraries that tests need beside Node, and their Debian packages. `test:system` reports the missing
 * ones at its start, and `.ci/run` installs all.
 */
const PROGRAMS = {
  // Debian's name, and the original one
  alertmanager: { programs: ['prometheus-alertmanager', 'alertmanager'], package: 'prometheus-alertmanager' },
  bash: { programs: ['bash'], package: 'bash' },
  buildah: { programs: ['buildah'], package: 'buildah' },
  chromium: {
    programs: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
    package: 'chromium',
  },
  curl: { programs: ['curl'], package: 'curl' },
  debootstrap: { programs: ['debootstrap'], package: 'debootstrap' },
  faketime: { files: FAKETIME_LIBRARIES, package: 'faketime' },
  haproxy: { programs: ['haproxy'], package: 'haproxy' },
  ip: { programs: ['ip'], package: 'iproute2' },
  kubectl: { programs: ['kustomize', 'kubectl'], package: 'kubernetes-client' },
  nginx: { programs: ['nginx'], package: 'nginx' },
  openssl: { programs: ['openssl'], package: 'openssl' },
  pgbouncer: { programs: ['pgbouncer'], package: 'pgbouncer' },
  pg_dump: { programs: ['pg_dump'], package: 'postgresql' },
  prometheus: { programs: ['prometheus'], package: 'prometheus' },
  promtool: { programs: ['promtool'], package: 'prometheus' },
  psql: { programs: ['psql'], package: 'postgresql-client' },
  python3: { programs: ['python3'], package: 'python3' },
  'redis-cli': { programs: ['redis-cli'], package: 'redis-tools' },
  script: { programs: ['script'], package: 'bsdutils' },
  setpriv: { programs: ['setpriv'], package: 'util-linux' },
  unshare: { programs: ['unshare'], package: 'util-linux' },
} as const satisfies Record<string, Wanted>;

export type Program = keyof typeof PROGRAMS;

const NAMES = Object.keys(PROGRAMS) as Program[];

/** Returns the path of a program or library of the table; undefined if it is not installed. */
export async function pathOf(name: Program): Promise<string | undefined> {
  const { programs = [], files = [] }: Wanted = PROGRAMS[name];
  return files.find((file) => existsSync(file)) ?? findProgram([...programs]);
}

/** Returns the programs that are not installed. */
export async function missingPrograms(names: readonly Program[] = NAMES): Promise<Program[]> {
  const paths = await Promise.all(names.map(pathOf));
  return names.filter((_, i) => paths[i] === undefined);
}

/** Returns the distinct Debian packages of the programs. */
export const packagesOf = (names: readonly Program[]): string[] => [
  ...new Set(names.map((name) => PROGRAMS[name].package)),
];

/** Returns the folder of the newest server that the system's pg_dump supports: the embedded one comes without pg_dump. */
export async function serverPrograms(): Promise<string | undefined> {
  const folders: string[] = [];
  for await (const folder of glob('/usr/lib/postgresql/*/bin')) folders.push(folder);
  folders.sort((a, b) => Number(b.split('/')[4]) - Number(a.split('/')[4]));
  const dump = await pathOf('pg_dump');
  if (dump) folders.push(dirname(await realpath(dump)));
  return folders.find((folder) => ['initdb', 'postgres'].every((name) => existsSync(join(folder, name))));
}

/** Reports the missing programs of the system tests at the start. In CI that is an error. */
export default async function reportMissing(): Promise<void> {
  const missing = await missingPrograms();
  if (missing.length === 0) return;
  const sentence = `Not installed: ${missing.join(', ')} (Debian: ${packagesOf(missing).join(' ')}).`;
  if (process.env.CI) throw new Error(`${sentence} In CI every test runs.`);
  console.warn(`${sentence} Tests that need them are skipped.`);
}

// `node test/support/programs.ts` prints the missing packages of this machine
if (import.meta.main) for (const name of packagesOf(await missingPrograms())) console.log(name);
