import { chmod, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProgram } from '../../src/demo/programs.ts';
import { startOnFreePort } from '../../src/demo/server.ts';
import { closeAtEnd } from '../support/left-behind.ts';

/** The path of nginx; undefined where it is not installed. */
export const findNginx = (): Promise<string | undefined> => findProgram(['nginx']);

/** nginx before instances of the service, as the README tells operators to set it up. Returns its port. */
export async function startNginx(program: string, ports: number[]): Promise<number> {
  const server = await startOnFreePort(async (port) => {
    const folder = await mkdtemp(join(tmpdir(), 'hotel-api-nginx-'));
    // its worker may run as another user
    await chmod(folder, 0o755);
    await writeFile(join(folder, 'nginx.conf'), configuration(port, ports, folder));
    return {
      command: [program, '-p', folder, '-c', join(folder, 'nginx.conf'), '-e', 'stderr'],
      env: { PATH: process.env.PATH },
      cwd: folder,
      stopSignal: 'SIGTERM',
      killAfterMs: 2_000,
      folder,
    };
  }, /start worker process \d/);
  closeAtEnd(`nginx on port ${server.port}`, async () => void (await server.stop()));
  return server.port;
}

const configuration = (port: number, ports: number[], folder: string): string => `
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr notice;
events { worker_connections 1024; }
http {
  access_log off;
  client_max_body_size 1m;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  upstream hotels {
${ports.map((each) => `    server 127.0.0.1:${each} max_fails=1 fail_timeout=1s;`).join('\n')}
    keepalive 32;
    # before the service does it, after 10 s
    keepalive_timeout 5s;
  }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location / {
      proxy_pass http://hotels;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_connect_timeout 1s;
      proxy_read_timeout 10s;
      # every request of this API may be sent twice, its POSTs too
      proxy_next_upstream error timeout non_idempotent;
    }
  }
}
`;
