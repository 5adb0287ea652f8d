import { chmod, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Order } from '../../src/demo/servers/guarded.ts';

/** Line that nginx prints when its worker has started. */
export const NGINX_READY = /start worker process \d/;

/**
 * Returns the order that runs nginx with one worker in a new folder. `http` returns the content of the http block for
 * the folder, which the worker can read; `main` precedes all blocks.
 */
export async function orderNginx(
  program: string,
  http: (folder: string) => string | Promise<string>,
  main = '',
): Promise<Order & { folder: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'hotel-api-nginx-'));
  // the worker may run as another user
  await chmod(folder, 0o755);
  const places = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `  ${name}_temp_path ${folder}/${name};`,
  );
  await writeFile(
    join(folder, 'nginx.conf'),
    [
      'daemon off;',
      'worker_processes 1;',
      `pid ${folder}/nginx.pid;`,
      'error_log stderr notice;',
      main,
      'events { worker_connections 4096; }',
      'http {',
      '  access_log off;',
      ...places,
      await http(folder),
      '}',
    ].join('\n'),
  );
  return {
    command: [program, '-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'],
    env: { PATH: process.env.PATH },
    cwd: folder,
    stopSignal: 'SIGTERM',
    killAfterMs: 2_000,
    folder,
  };
}
