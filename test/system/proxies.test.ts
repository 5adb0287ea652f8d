import { beforeAll, describe, expect, it } from 'vitest';
import { ingressConfiguration } from '../manifests/ingress.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { Client } from '../support/client.ts';
import { type FrontFault, startFront } from '../support/front.ts';
import { startHaproxy } from '../support/haproxy.ts';
import { needs } from '../support/needs.ts';
import { startNginx } from '../support/nginx.ts';
import { FaultProxy } from '../support/proxy.ts';
import { type Service, startService } from '../support/service.ts';

await needs('nginx', 'haproxy', 'kubectl');

/** Starts a proxy before these ports, as its recipe says; instances answer health checks at `adminPort`. Returns its port. */
type StartProxy = (ports: number[], adminPort: number) => Promise<number>;

/** Proxies, set up as docs/operations/nginx-and-load-balancers.md and the Ingresses of production say. */
const PROXIES: Record<'nginx' | 'HAProxy' | 'Ingress', StartProxy> = {
  nginx: (ports) => startNginx(ports),
  HAProxy: startHaproxy,
  Ingress: async (ports) => startNginx(ports, await ingressConfiguration()),
};

const CHANNEL_IDS = Array.from({ length: 1_000 }, (_, i) => `channel-number-${i}`);
const BATCH = Buffer.from(JSON.stringify({ channel_ids: CHANNEL_IDS }));

let service: Service;
let hotel: Buffer;
let batch: Buffer;

beforeAll(async () => {
  const hotels = CHANNEL_IDS.map((channel_id, i) => ({
    id: `h${i}`,
    channel_id,
    description: 'x'.repeat(800),
  }));
  service = await startService({ hotels });
  hotel = (await service.get('/hotels/h1')).body;
  batch = (await service.post('/hotels/channel/batch', { channel_ids: CHANNEL_IDS })).body;
});

function clientOf(port: number): Client {
  const client = new Client(port, { full: service.fullKey, narrow: service.narrowKey });
  closeAtEnd(`connections to the proxy on port ${port}`, async () => client.close());
  return client;
}

describe.each(Object.entries(PROXIES))('%s', (_, startProxy) => {
  let instances: [FaultProxy, FaultProxy];
  let client: Client;

  beforeAll(async () => {
    instances = [await FaultProxy.before(service.url), await FaultProxy.before(service.url)];
    client = clientOf(
      await startProxy(
        instances.map(({ port }) => port),
        service.adminPort,
      ),
    );
  });

  async function sendBoth(): Promise<void> {
    expect((await client.request('/hotels/h1')).body.equals(hotel)).toBe(true);
    const response = await client.request('/hotels/channel/batch', { method: 'POST' }, BATCH);
    expect(response.status).toBe(200);
    expect(response.body.equals(batch)).toBe(true);
  }

  it('keeps connections to the instances', async () => {
    for (let i = 0; i < 20; i++) await sendBoth();
    const opened = instances.reduce((sum, { accepted }) => sum + accepted, 0);
    expect(opened).toBeLessThanOrEqual(2 * instances.length);
  });

  it.each([
    ['GET', '/hotels/h1', undefined],
    ['POST', '/hotels/channel/batch', BATCH],
  ])('repeats a %s whose connection closes on arrival', async (method, path, body) => {
    for (let i = 0; i < 4; i++) await sendBoth();
    let due = 1;
    for (const instance of instances) instance.resetsRequest = () => due-- > 0;
    const response = await client.request(path, { method }, body);
    expect(response.status).toBe(200);
    expect(response.body.equals(body ? batch : hotel)).toBe(true);
    expect(due).toBeLessThan(1);
  });

  it('passes the largest body of a batch', async () => {
    const body = Buffer.from('{"channel_ids":[]}'.padEnd(1024 ** 2));
    expect((await client.request('/hotels/channel/batch', { method: 'POST' }, body)).text).toBe('[]');
  });

  it('returns a 503, and tries no other instance', async () => {
    const rejection: FrontFault = { status: 503, retryAfterS: 1 };
    const fronts = [
      await startFront(service.port, { 1: rejection }),
      await startFront(service.port, { 1: rejection }),
    ];
    const ports = fronts.map(({ url }) => Number(new URL(url).port));
    const response = await clientOf(await startProxy(ports, service.adminPort)).request('/hotels/h1');
    expect(response).toMatchObject({ status: 503, headers: { 'retry-after': '1' } });
    expect(fronts.map(({ seen }) => seen.length).sort()).toEqual([0, 1]);
  });

  // last, because one instance remains stopped
  it('hides the exit of an instance from clients', async () => {
    await instances[0].close();
    for (let i = 0; i < 10; i++) await sendBoth();
  });
});

it('each permits a client of /changes to wait longer than other requests', async () => {
  const walked = (await service.get('/changes?limit=1000')).json() as { next: string };
  // longer than the 10 s that the recipes permit for other requests
  const path = (after: string) => `/changes?after=${encodeURIComponent(after)}&wait=12`;
  const answers = await Promise.all(
    Object.values(PROXIES).map(async (startProxy) => {
      const client = clientOf(await startProxy([service.port], service.adminPort));
      let { next } = walked;
      for (;;) {
        const response = await client.request(path(next));
        const { changes, next: later } = response.json() as { changes: object[]; next: string };
        if (response.status !== 200 || changes.length === 0) return response.status;
        next = later;
      }
    }),
  );
  expect(answers).toEqual(answers.map(() => 200));
});
