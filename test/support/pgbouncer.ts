import { type OwnServer, ownProgram } from './own-server.ts';

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
  const settings = (port: number, folder: string) => ({
    ...{ listen_addr: '127.0.0.1', listen_port: port, unix_socket_dir: '' },
    ...{ auth_type: 'plain', auth_file: `${folder}/users` },
    ...{ pool_mode: 'transaction', default_pool_size: poolSize },
    ...more,
  });
  const server = await ownProgram(
    // it does not run as root
    (_, folder) => [
      'pgbouncer',
      ...(process.getuid?.() === 0 ? ['--user=nobody'] : []),
      `${folder}/pgbouncer.ini`,
    ],
    (port, folder) => ({
      users: `"${username}" "${decodeURIComponent(password)}"\n`,
      'pgbouncer.ini': [
        ...['[databases]', `* = host=${hostname} port=${serverPort}`, '[pgbouncer]', ''],
        ...Object.entries(settings(port, folder)).map(([name, value]) => `${name} = ${value}`),
      ].join('\n'),
    }),
    /process up/,
  );
  const pooled = Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(server.port) });
  return { server, url: pooled.href };
}
