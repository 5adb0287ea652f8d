import { afterEach, beforeEach, expect, it } from 'vitest';
import { Client } from '../../test/support/client.ts';
import { RawConnection } from '../../test/support/raw-connection.ts';
import { freePort } from '../demo/servers/port.ts';
import { MAX_CONNECTIONS, openAdmin, shared } from './admin.ts';

let port: number;
let admin: Awaited<ReturnType<typeof openAdmin>>;
beforeEach(async () => {
  port = await freePort();
  // its metrics are never ready
  const source = { isReady: () => true, metrics: () => new Promise<string>(() => {}), contentType: '' };
  admin = await openAdmin('127.0.0.1', port, source);
});
afterEach(() => admin.close());

/** Waits until all promises and immediates that are ready have run. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

it('scrapes that arrive while metrics are gathered share the next result', async () => {
  const begun: PromiseWithResolvers<string>[] = [];
  const scrape = shared(() => {
    const gathering = Promise.withResolvers<string>();
    begun.push(gathering);
    return gathering.promise;
  }, 0);
  const first = scrape();
  await settled();
  const others = Array.from({ length: 200 }, scrape);
  await settled();
  expect(begun.length).toBe(1);
  begun[0]!.resolve('before the others came');
  expect(await first).toBe('before the others came');
  await settled();
  expect(begun.length).toBe(2);
  begun[1]!.resolve('while they waited');
  expect(new Set(await Promise.all(others))).toEqual(new Set(['while they waited']));
});

/** Sends text again and again, until the server has closed the connection. */
async function sendEndless(head: string, more: string): Promise<void> {
  const connection = new RawConnection(port);
  await connection.write(head);
  while (!connection.isClosed) await connection.write(more);
}

it('does not read bodies and pipelined requests, however long they are', async () => {
  const chunks = '1\r\na\r\n'.repeat(10_000);
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n`;
  for (const path of ['/livez', '/metrics']) {
    await sendEndless(`${get(path)}Transfer-Encoding: chunked\r\n\r\n`, chunks);
    await sendEndless(`${get(path)}Content-Length: 9999999999\r\n\r\n`, chunks);
    await sendEndless('', `${get(path)}\r\n`.repeat(1_000));
  }
  expect((await new Client(port, {}, false).request('/livez')).status).toBe(200);
});

it('connections without a request keep no probe out', async () => {
  const idle = Array.from({ length: MAX_CONNECTIONS }, () => new RawConnection(port));
  // they are established then
  await Promise.all(idle.map((connection) => connection.write('')));
  expect((await new Client(port, {}, false).request('/livez')).status).toBe(200);
  await Promise.race(idle.map(({ closed }) => closed));
  expect(idle.filter(({ isClosed }) => isClosed)).toHaveLength(1);
});
