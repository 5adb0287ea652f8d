import { chmod, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { OwnServer } from './own-server.ts';

/**
 * Starts a PgBouncer in transaction mode for the server at `url`, otherwise with Debian's settings and `more`. It takes any
 * database name, the login of the address, and at most `poolSize` connections. Resolves with the address of the same
 * database there. Requires `needs('pgbouncer')`.
 */
export async function startPgBouncer(
  url: string,
  poolSize: number,
  more: Record<string, string> = {},
): Promise<{ server: OwnServer; url: string }> {
  const { hostname, port: serverPort, username, password } = new URL(url);
  const server = await OwnServer.start(async (port) => {
    const folder = await mkdtemp(join(tmpdir(), 'hotel-api-pgbouncer-'));
    const settings = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'plain',
      auth_file: `${folder}/users`,
      pool_mode: 'transaction',
      default_pool_size: poolSize,
      ...more,
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
    const databases = `[databases]\n* = host=${hostname} port=${serverPort}\n`;
    await writeFile(`${folder}/users`, `"${username}" "${decodeURIComponent(password)}"\n`);
    await writeFile(`${folder}/pgbouncer.ini`, `${databases}[pgbouncer]\n${lines.join('\n')}\n`);
    await chmod(folder, 0o755);
    return {
      // it does not run as root
      command: [
        'pgbouncer',
        ...(process.getuid?.() === 0 ? ['--user=nobody'] : []),
        `${folder}/pgbouncer.ini`,
      ],
      env: { PATH: `${process.env.PATH}:/usr/sbin` },
      stopSignal: 'SIGTERM',
      killAfterMs: 5_000,
      folder,
    };
  }, /process up/);
  const pooled = Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(server.port) });
  return { server, url: pooled.href };
}
