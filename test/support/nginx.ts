import { readFileSync } from 'node:fs';
import { startOnFreePort } from '../../src/demo/servers/server.ts';
import { closeAtEnd } from './cleanup.ts';
import { NGINX_READY, orderNginx } from './order-nginx.ts';
import { pathOf } from './programs.ts';

/** Starts nginx for instances of the service, by default with the settings of docs/operations/nginx-and-load-balancers.md. Returns its port. */
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

/** nginx defaults except for the version of HTTP, because the service does not support 1.0. */
export const byDefault = (port: number, ports: number[]): string => `
  upstream hotels { ${ports.map((each) => `server 127.0.0.1:${each};`).join(' ')} }
  server {
    listen 127.0.0.1:${port} backlog=1024;
    location / { proxy_pass http://hotels; proxy_http_version 1.1; }
  }
`;

/** Configuration of the operators' documentation, with these instances. */
export const documented = (port: number, ports: number[]): string => {
  const page = readFileSync(
    new URL('../../docs/operations/nginx-and-load-balancers.md', import.meta.url),
    'utf8',
  );
  const [, block] = /^```nginx\n([\s\S]*?)^```/m.exec(page)!;
  const [, parameters] = /^ *server [\d.]+:\d+(.*);\n/m.exec(block!)!;
  return block!
    .replaceAll(/^ *server [\d.]+:\d+.*;\n/gm, '')
    .replace('upstream hotels {', (line) =>
      [line, ...ports.map((each) => `  server 127.0.0.1:${each}${parameters};`)].join('\n'),
    )
    .replace('server {\n', (line) => `${line}  listen 127.0.0.1:${port} backlog=1024;\n`);
};
