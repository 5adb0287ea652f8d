import { once } from 'node:events';
import type { Socket } from 'node:net';
import { Redis as Client } from 'ioredis';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { fakeTimers, realClocks } from '../../src/lib/clock.fixture.ts';
import { FakeServer } from '../../src/redis/fake-server.fixture.ts';
import { readValues } from '../../src/redis/mget.fixture.ts';
import { MgetConnection } from '../../src/redis/mget.ts';
import type { Values } from '../../src/redis/reply-parser.ts';
import { closeAtEnd } from '../support/cleanup.ts';

/** Tests of late replies have a separate clock, and nothing else may use it. */
const DEADLINE_MS = 10_000;
const RETRY_MS = 1;
const OPTIONS = { protocol: 2 as const, maxRetriesPerRequest: 0, retryStrategy: () => RETRY_MS };

const fakeTimeouts = () => fakeTimers(() => 0, { toFake: ['setTimeout', 'clearTimeout', 'performance'] });

/** Ignores errors on the way there. */
const nextReady = (client: Client) => new Promise<void>((resolve) => client.once('ready', resolve));

async function texts(read: Promise<Values>): Promise<(string | null)[]> {
  const values = await read;
  return Array.from({ length: values.length }, (_, i) => values.value(i)).map((value) => value && `${value}`);
}

let server: FakeServer;
/** the newest connection */
let socket: Socket;
/** keys of each MGET that no test has taken yet; the test replies by writing to `socket` */
const requested: string[][] = [];
let arrived = Promise.withResolvers<void>();
let connection: MgetConnection;
let client: Client;

beforeAll(async () => {
  server = await FakeServer.start();
  closeAtEnd('fake server', () => server.close());
  server.answer = (from, [name, ...keys]) => {
    socket = from;
    if (name !== 'mget') return void from.write('+OK\r\n');
    requested.push(keys);
    arrived.resolve();
    arrived = Promise.withResolvers();
  };
  client = new Client(server.url, OPTIONS);
  connection = new MgetConnection(client, DEADLINE_MS);
  closeAtEnd('MGET connection', async () => connection.close());
  await once(client, 'ready');
});
afterEach(() => {
  realClocks();
  expect(requested, 'reads that no test took').toEqual([]);
});

async function nextKeys(): Promise<string[]> {
  while (requested.length === 0) await arrived.promise;
  return requested.shift()!;
}

/** Sends bytes, and waits until the connection has received them as a separate chunk. */
async function send(bytes: string): Promise<void> {
  const seen = once(client.stream, 'data');
  socket.write(bytes);
  const [chunk] = await seen;
  expect(`${chunk}`).toBe(bytes);
}

async function read(...keys: string[]): Promise<{ values: Promise<(string | null)[]> }> {
  const values = texts(readValues(connection, keys));
  values.catch(() => {});
  expect(await nextKeys()).toEqual(keys);
  return { values };
}

async function expectAnswers(): Promise<void> {
  const { values } = await read('k');
  await send(reply('valid'));
  expect(await values).toEqual(['valid']);
}

test('a read resolves when its reply is complete, although the next one is not', async () => {
  const [first, second] = [await read('a'), await read('b')];
  const [one, two] = [reply('first'), reply('second')];
  await send(one + two.slice(0, 9));
  expect(await first.values).toEqual(['first']);
  await send(two.slice(9));
  expect(await second.values).toEqual(['second']);
});

test('a late reply is never used for the next read', async () => {
  fakeTimeouts();
  const late = await read('late');
  const halfLate = await read('half late');
  vi.advanceTimersByTime(DEADLINE_MS - 1);
  await send(reply('late').slice(0, 7));
  vi.advanceTimersByTime(1);
  await expect(late.values).rejects.toThrow(`Redis did not answer within ${DEADLINE_MS} ms`);
  await expect(halfLate.values).rejects.toThrow('did not answer');
  const next = await read('next');
  await send(reply('late').slice(7));
  await send('-ERR half late\r\n');
  await send(reply('next'));
  expect(await next.values).toEqual(['next']);
  expect(server.connections).toBe(1);
});

test('a connection silent for more than two deadlines is closed and reopened', async () => {
  fakeTimeouts();
  const before = server.connections;
  for (let deadline = 1; deadline <= 2; deadline++) {
    const { values } = await read('a');
    vi.advanceTimersByTime(DEADLINE_MS);
    await expect(values).rejects.toThrow('did not answer');
    expect(client.stream.destroyed).toBe(false);
  }
  const reconnecting = once(client, 'reconnecting');
  const last = await read('a');
  vi.advanceTimersByTime(DEADLINE_MS);
  await expect(last.values).rejects.toThrow('did not answer');
  await reconnecting;
  expect(connection.ready).toBe(false);
  const ready = nextReady(client);
  vi.advanceTimersByTime(RETRY_MS);
  await ready;
  await expectAnswers();
  expect(server.connections).toBe(before + 1);
});

test('a connection closed inside a reply rejects all pending reads, and works after the reconnect', async () => {
  const [first, second, third] = [await read('a'), await read('b'), await read('c', 'd')];
  await send(reply('first'));
  await send(reply('a value of some length').slice(0, 12));
  const ready = nextReady(client);
  socket.resetAndDestroy();
  expect(await first.values).toEqual(['first']);
  await expect(second.values).rejects.toThrow('not connected to Redis');
  await expect(third.values).rejects.toThrow('not connected to Redis');
  await expect(readValues(connection, ['e'])).rejects.toThrow('not connected to Redis');
  await ready;
  await expectAnswers();
});

/** Returns the reply to a read of one key. */
function reply(value: string): string {
  return `*1\r\n$${value.length}\r\n${value}\r\n`;
}
