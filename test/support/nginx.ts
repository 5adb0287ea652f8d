import { read } from '../documents/files.ts';
import { NGINX_READY, nginxCommand, nginxFile } from './nginx-file.ts';
import { ownProgram } from './own-server.ts';
import { pathOf } from './programs.ts';

/** Page of the operators' documentation with the recipes. */
export const PAGE = read('docs/operations/nginx-and-load-balancers.md');

/** Starts nginx for instances of the service, by default with the settings of docs/operations/nginx-and-load-balancers.md. Returns its port. */
export async function startNginx(
  ports: number[],
  configuration: typeof documented = documented,
): Promise<number> {
  const program = await pathOf('nginx');
  const server = await ownProgram(
    (_, folder) => nginxCommand(program!, folder),
    (port, folder) => ({ 'nginx.conf': nginxFile(folder, configuration(port, ports)) }),
    NGINX_READY,
  );
  return server.port;
}

/** Configuration of the operators' documentation, with these instances. */
export const documented = (port: number, ports: number[]): string => {
  const [, block] = /^```nginx\n([\s\S]*?)^```/m.exec(PAGE)!;
  const [, parameters] = /^ *server [\d.]+:\d+(.*);\n/m.exec(block!)!;
  return block!
    .replaceAll(/^ *server [\d.]+:\d+.*;\n/gm, '')
    .replace('upstream hotels {', (line) =>
      [line, ...ports.map((each) => `  server 127.0.0.1:${each}${parameters};`)].join('\n'),
    )
    .replace('server {\n', (line) => `${line}  listen 127.0.0.1:${port} backlog=1024;\n`);
};
