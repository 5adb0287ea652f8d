import { NGINX_READY, orderNginx } from '../../src/servers/nginx.ts';
import { startOnFreePort } from '../../src/servers/server.ts';
import { closeAtEnd } from '../support/left-behind.ts';
import { pathOf } from '../support/programs.ts';

/**
 * nginx before instances of the service, by default as docs/operations/nginx-and-load-balancers.md sets it up. Returns
 * its port.
 */
export async function startNginx(
  ports: number[],
  configuration: typeof documented = documented,
): Promise<number> {
  const program = await pathOf('nginx');
  const server = await startOnFreePort(
    (port) => orderNginx(program!, () => configuration(port, ports)),
    NGINX_READY,
  );
  closeAtEnd(`nginx on port ${server.port}`, async () => void (await server.stop()));
  return server.port;
}

/** All is left to nginx but the version of HTTP: the service does not speak 1.0. */
export const byDefault = (port: number, ports: number[]): string => `
  upstream hotels { ${ports.map((each) => `server 127.0.0.1:${each};`).join(' ')} }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location / { proxy_pass http://hotels; proxy_http_version 1.1; }
  }
`;

export const documented = (port: number, ports: number[]): string => `
  client_max_body_size 1m;
  upstream hotels {
${ports.map((each) => `    server 127.0.0.1:${each} max_fails=0;`).join('\n')}
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
`;
