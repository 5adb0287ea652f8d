import { once } from 'node:events';
import type { Socket } from 'node:net';
import { Redis as Client } from 'ioredis';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { fakeTimers, realClocks } from '../../src/lib/clock.fixture.ts';
import { FakeServer } from '../../src/redis/fake-server.fixture.ts';
import { readValues, valueAt } from '../../src/redis/mget.fixture.ts';
import { MgetConnection } from '../../src/redis/mget.ts';
import { closeAtEnd } from '../support/cleanup.ts';

/** The test of late replies has a separate clock, and nothing else may use it. */
const DEADLINE_MS = 10_000;

let server: FakeServer;
let socket: Socket;
/** the test replies by writing to `socket` */
let requested = Promise.withResolvers<string[]>();
let connection: MgetConnection;
let client: Client;

beforeAll(async () => {
  server = await FakeServer.start();
  closeAtEnd('fake server', () => server.close());
  server.answer = (from, [name, ...keys]) => {
    socket = from;
    if (name === 'mget') requested.resolve(keys);
    else from.write('+OK\r\n');
  };
  client = new Client(server.url, { protocol: 2, maxRetriesPerRequest: 0 });
  connection = new MgetConnection(client, DEADLINE_MS);
  closeAtEnd('MGET connection', async () => client.disconnect());
  await once(client, 'ready');
});
afterEach(realClocks);

/** Sends bytes, and waits until the connection has received them as a separate chunk. */
async function send(bytes: string): Promise<void> {
  const seen = once(client.stream, 'data');
  socket.write(bytes);
  const [chunk] = await seen;
  expect(`${chunk}`).toBe(bytes);
}

/** Begins a read of one key, which the server has received. */
async function read(key: string): Promise<{ value: Promise<string> }> {
  requested = Promise.withResolvers();
  const value = readValues(connection, [key]).then((values) => `${valueAt(values, 0)}`);
  value.catch(() => {});
  expect(await requested.promise).toEqual([key]);
  return { value };
}

const reply = (value: string) => `*1\r\n$${value.length}\r\n${value}\r\n`;

test('a read resolves when its reply is complete, although the next one is not', async () => {
  const [first, second] = [await read('a'), await read('b')];
  const [one, two] = [reply('first'), reply('second')];
  await send(one + two.slice(0, 9));
  expect(await first.value).toBe('first');
  await send(two.slice(9));
  expect(await second.value).toBe('second');
});

// test/system/faults.test.ts has connections that are reset, silent or half open
test('a late reply is never used for the next read', async () => {
  fakeTimers(() => 0, { toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  const late = await read('late');
  const halfLate = await read('half late');
  vi.advanceTimersByTime(DEADLINE_MS - 1);
  await send(reply('late').slice(0, 7));
  vi.advanceTimersByTime(1);
  await expect(late.value).rejects.toThrow(`Redis did not answer within ${DEADLINE_MS} ms`);
  await expect(halfLate.value).rejects.toThrow('did not answer');
  const next = await read('next');
  await send(reply('late').slice(7));
  await send('-ERR half late\r\n');
  await send(reply('next'));
  expect(await next.value).toBe('next');
  expect(server.connections).toBe(1);
});
