import { chown, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { orderPostgres } from '../../src/demo/servers/postgres.ts';
import { type OwnServer, ownServer } from './own-server.ts';
import { postgresClient } from './postgres-client.ts';
import { run } from './run.ts';

/** Once promoted, it restarts as a primary. */
const READY = /database system is ready to accept (read-only )?connections/;

/**
 * Starts a streaming replica of the server at `ownerUrl`, whose files must be on this machine. It uses PostgreSQL's backup
 * functions, because the test binaries lack pg_basebackup.
 */
export async function ownReplica(ownerUrl: string): Promise<OwnServer> {
  const { port: primaryPort, username, password } = new URL(ownerUrl);
  return ownServer(async (port) => {
    const order = await orderPostgres(port, { maxConnections: 100, password });
    const data = join(order.folder, 'data');
    const labels = await backUp(ownerUrl, data);
    const files = {
      ...labels,
      'standby.signal': '',
      'postgresql.auto.conf': `primary_conninfo = 'host=127.0.0.1 port=${primaryPort} user=${username} password=${password}'\n`,
    };
    const { uid, gid } = await stat(data);
    for (const [name, text] of Object.entries(files)) {
      await writeFile(join(data, name), text);
      await chown(join(data, name), uid, gid);
    }
    return order;
  }, READY);
}

async function backUp(ownerUrl: string, to: string): Promise<Record<string, string>> {
  const sql = postgresClient(ownerUrl);
  const [at] = await sql<{ data_directory: string }[]>`show data_directory`;
  await sql`select pg_backup_start('test', true)`;
  await run('cp', ['-a', at!.data_directory, to]);
  await Promise.all(['postmaster.pid', 'postmaster.opts'].map((name) => rm(join(to, name))));
  const [stop] = await sql<{ labelfile: string }[]>`select labelfile from pg_backup_stop(false)`;
  await sql.end();
  return { backup_label: stop!.labelfile };
}
