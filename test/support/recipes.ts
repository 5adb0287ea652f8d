import { readFileSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startOnFreePort } from '../../src/demo/servers/server.ts';
import { ingressConfiguration } from '../manifests/ingress.ts';
import { closeAtEnd } from './cleanup.ts';
import { startNginx } from './nginx.ts';
import { pathOf } from './programs.ts';

/** Starts a proxy before these ports, as its recipe says; instances answer health checks at `adminPort`. Returns its port. */
type StartProxy = (ports: number[], adminPort: number) => Promise<number>;

/** Proxies, set up as docs/operations/nginx-and-load-balancers.md and the Ingresses of production say. */
export const PROXIES: Record<'nginx' | 'HAProxy' | 'Ingress', StartProxy> = {
  nginx: (ports) => startNginx(ports),
  HAProxy: startHaproxy,
  Ingress: async (ports) => startNginx(ports, await ingressConfiguration()),
};

async function startHaproxy(ports: number[], adminPort: number): Promise<number> {
  const program = await pathOf('haproxy');
  const page = readFileSync(
    new URL('../../docs/operations/nginx-and-load-balancers.md', import.meta.url),
    'utf8',
  );
  const [, block] = /^```haproxy\n([\s\S]*?)^```/m.exec(page)!;
  const server = await startOnFreePort(async (port) => {
    const folder = await mkdtemp(join(tmpdir(), 'hotel-api-haproxy-'));
    let next = 0;
    const configuration = block!
      .replace('bind :80', `bind 127.0.0.1:${port}`)
      .replaceAll(/10\.0\.0\.\d+:8080/g, () => `127.0.0.1:${ports[next++ % ports.length]}`)
      .replaceAll('check port 9090', `check port ${adminPort}`);
    await writeFile(join(folder, 'haproxy.cfg'), configuration);
    return {
      // with a master, which says when the worker is ready
      command: [program!, '-W', '-db', '-f', join(folder, 'haproxy.cfg')],
      env: { PATH: process.env.PATH },
      cwd: folder,
      stopSignal: 'SIGTERM',
      killAfterMs: 2_000,
      folder,
    };
  }, /Loading success/);
  closeAtEnd('HAProxy', async () => void (await server.stop()));
  return server.port;
}
