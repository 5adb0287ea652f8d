import { expect, it } from 'vitest';
import { makeKey } from '../../src/auth/key.ts';
import { lacks, needs } from '../support/needs.ts';
import { startNginx } from '../support/nginx.ts';
import { residentMiB, workersOf } from '../support/processes.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { insertKey } from '../support/rows.ts';
import { startService } from '../support/service.ts';
import { expectAnswered, SteadyLoad } from '../support/steady-load.ts';

await needs('redis');
const noNginx = await lacks('nginx');

const ROUNDS = 6;
const service = await startService({ workers: 2, hotels: [{ id: 'h1' }] });
const pids = await workersOf(service, 2);
const answer = (await service.get('/hotels/h1')).text;

/**
 * Makes an attack while others are served, on this port. They go on being answered, and no worker ends.
 */
async function attack(port: number, round: (others: SteadyLoad) => Promise<void>): Promise<void> {
  const others = new SteadyLoad({ port, fullKey: service.fullKey }, [{ path: '/hotels/h1', answer }]);
  for (let i = 0; i < ROUNDS; i++) {
    await round(others);
    await others.answers(5);
  }
  await expectAnswered(others);
  expect((await service.workerPids()).sort()).toEqual(pids);
}

/** Returns the keys looked up outside the workers so far. */
const lookups = () => service.metric('hotel_api_key_lookups_total', { tier: 'postgres' });

it.skipIf(noNginx)('behind nginx, a client that sends bodies with GET receives 400 each time', async () => {
  const withLength = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello`;
  const requests = [
    ...['/hotels/h1', '/docs', '/nowhere'].map(withLength),
    'GET /hotels HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
    `GET /hotels/h1 HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n${'x'.repeat(500_000)}`,
  ];
  const port = await startNginx([service.port, service.port]);
  await attack(port, async () => {
    for (const request of requests) {
      const connection = new RawConnection(port);
      void connection.write(request);
      expect((await connection.read())?.status).toBe(400);
      connection.close();
    }
  });
});

const CHUNKED = 'POST /hotels/batch HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n';

it.each([
  // more than an iteration of the event loop answers within its budget
  ['pipelines', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(60_000)],
  ['pipelines pages that are ready', 'HEAD /docs HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(60_000)],
  // as long as it sends fast enough, the library reads on in one iteration
  ['sends small chunks', CHUNKED + `50\r\n${'a'.repeat(80)}\r\n`.repeat(1_000_000)],
  ['sends large chunks', CHUNKED + `fffff\r\n${'a'.repeat(0xfffff)}\r\n`.repeat(100)],
])('a client that %s without end is disconnected', async (_, flood) => {
  await attack(service.port, async () => {
    const hostile = new RawConnection(service.port);
    void hostile.write(flood);
    await hostile.closed;
  });
});

it('an unknown key is looked up once by each worker, and too many unknown keys yield 503, but not for others', async () => {
  const statusOf = async (key: string) => (await service.get('/hotels/h1', { key })).status;
  const unknown = makeKey();
  const before = await lookups();
  for (let i = 0; i < 50; i++) expect(await statusOf(unknown)).toBe(401);
  expect((await lookups()) - before).toBeLessThanOrEqual(2);
  const valid = await insertKey(service.sql, []);
  const responses = await Promise.all(
    Array.from({ length: 1_000 }, () => service.get('/hotels/h1', { key: makeKey() })),
  );
  expect(await statusOf(valid)).toBe(200);
  const rejected = responses.filter(({ status }) => status === 503);
  expect(rejected.length).toBeGreaterThan(0);
  for (const { text, headers } of rejected)
    expect([text, headers['retry-after']]).toEqual(['{"error":"Service unavailable"}', '1']);
  expect(new Set(responses.map(({ status }) => status))).toEqual(new Set([401, 503]));
  expect((await lookups()) - before).toBeLessThan(responses.length);
});

it('of bodies with unknown keys, a worker keeps nothing once they are rejected', async () => {
  const before = await residentMiB(pids);
  const body = Buffer.alloc(900_000, ' ');
  const clients = Array.from({ length: 600 }, async () => {
    const client = new RawConnection(service.port);
    const head = `POST /hotels/batch HTTP/1.1\r\nHost: a\r\nx-api-key: ${makeKey()}\r\nContent-Length: 1000000\r\n\r\n`;
    void client.write(Buffer.concat([Buffer.from(head), body]));
    expect([401, 503]).toContain((await client.read())?.status);
    return client;
  });
  const open = await Promise.all(clients);
  // half of them would fill 300 MiB
  expect((await residentMiB(pids)) - before).toBeLessThan(120);
  for (const client of open) client.close();
  expect((await service.workerPids()).sort()).toEqual(pids);
});
