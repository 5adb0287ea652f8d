import { findProgram } from '../../src/demo/servers/programs.ts';
import { findFaketime } from './fake-clock.ts';

/**
 * The programs that system tests run beside Node, and Debian's packages that hold them. One of `programs` is enough.
 * `test:system` says at its start which are missing, and `.ci/run` installs all of them.
 */
const PROGRAMS = {
  // Debian's name, and its own
  alertmanager: { programs: ['prometheus-alertmanager', 'alertmanager'], package: 'prometheus-alertmanager' },
  bash: { programs: ['bash'], package: 'bash' },
  buildah: { programs: ['buildah'], package: 'buildah' },
  chromium: {
    programs: ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'],
    package: 'chromium',
  },
  debootstrap: { programs: ['debootstrap'], package: 'debootstrap' },
  // a library, which is looked for where Debian puts it
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

/** The path of a program of the table; undefined where it is not installed. */
export async function pathOf(name: Program): Promise<string | undefined> {
  return name === 'faketime' ? findFaketime() : findProgram([...PROGRAMS[name].programs]);
}

/** Those of the names that are not installed. */
export async function missingPrograms(names: readonly Program[] = NAMES): Promise<Program[]> {
  const paths = await Promise.all(names.map(pathOf));
  return names.filter((_, i) => paths[i] === undefined);
}

/** Debian's packages that hold the programs, each once. */
export const packagesOf = (names: readonly Program[]): string[] => [
  ...new Set(names.map((name) => PROGRAMS[name].package)),
];

// `node test/support/programs.ts` prints the packages that this machine lacks
if (import.meta.main) for (const name of packagesOf(await missingPrograms())) console.log(name);
