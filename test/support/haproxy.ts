import { PAGE } from './nginx.ts';
import { ownProgram } from './own-server.ts';
import { pathOf } from './programs.ts';

/**
 * Starts HAProxy as docs/operations/nginx-and-load-balancers.md says, for instances that answer health checks at `adminPort`.
 * The checks are rarer than there: the tests judge requests, and no instance leaves by a check. Returns its port.
 */
export async function startHaproxy(ports: number[], adminPort: number): Promise<number> {
  const program = await pathOf('haproxy');
  const [, block] = /^```haproxy\n([\s\S]*?)^```/m.exec(PAGE)!;
  const configuration = (port: number) => {
    let next = 0;
    return block!
      .replace('bind :80', `bind 127.0.0.1:${port}`)
      .replaceAll(/10\.0\.0\.\d+:8080/g, () => `127.0.0.1:${ports[next++ % ports.length]}`)
      .replaceAll('check port 9090 inter 1s', `check port ${adminPort} inter 60s`);
  };
  const server = await ownProgram(
    // with a master, which says when the worker is ready
    (_, folder) => [program!, '-W', '-db', '-f', `${folder}/haproxy.cfg`],
    (port) => ({ 'haproxy.cfg': configuration(port) }),
    /Loading success/,
  );
  return server.port;
}
