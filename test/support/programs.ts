import { findProgram } from '../../src/demo/servers/programs.ts';
import { findFaketime } from './fake-clock.ts';

/**
 * Programs that system tests need beside Node, and their Debian packages. One of `programs` suffices. `test:system` reports
 * the missing ones at its start, and `.ci/run` installs all.
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
  debootstrap: { programs: ['debootstrap'], package: 'debootstrap' },
  // a library, which is searched at Debian's path
  faketime: { programs: [], package: 'faketime' },
  haproxy: { programs: ['haproxy'], package: 'haproxy' },
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
} as const;

export type Program = keyof typeof PROGRAMS;

const NAMES = Object.keys(PROGRAMS) as Program[];

/** Returns the path of a program of the table; undefined if it is not installed. */
export async function pathOf(name: Program): Promise<string | undefined> {
  return name === 'faketime' ? findFaketime() : findProgram([...PROGRAMS[name].programs]);
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

// `node test/support/programs.ts` prints the missing packages of this machine
if (import.meta.main) for (const name of packagesOf(await missingPrograms())) console.log(name);
