import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Redis, waitUntilReady } from './client.ts';
import { FakeServer, INFO } from './fake-server.fixture.ts';
import { mgetOf, valueAt } from './mget.fixture.ts';
import { ValuesReader } from './reply-parser.ts';

/** Only the replies matter, not their time. */
const TIMEOUT_MS = 60_000;
const MIB = 1024 * 1024;
/** Bytes that a connection and the kernel hold beside those of a reply. */
const HELD_BYTES = 16 * MIB;

let server: FakeServer;
let redis: Redis;

beforeEach(async () => {
  server = await FakeServer.start();
  redis = new Redis(server.url, TIMEOUT_MS, () => {});
  expect(await waitUntilReady(redis, TIMEOUT_MS)).toBe(true);
});
afterEach(async () => {
  redis.close();
  await server.close();
});

/** Returns the values of two keys; undefined if they could not be read. */
async function readTwo(): Promise<(string | undefined)[] | undefined> {
  const reader = new ValuesReader({ keys: 2 });
  if (!(await redis.sendMget(mgetOf(['1', '2']), 2, reader))) return undefined;
  return [0, 1].map((i) => valueAt(reader.values, i)?.toString());
}

const USE = { limit: 1, windowMs: 1, wanted: 1 };

/** Answers reads by a value for each key, as a server that tells the truth. */
const answer = (socket: Socket, [, ...keys]: string[]) =>
  void socket.write(`*${keys.length}\r\n${'$1\r\na\r\n'.repeat(keys.length)}`);

/** Asserts that a read succeeds, when the connection has been replaced. */
async function expectAnswers(): Promise<void> {
  server.answer = answer;
  await expect.poll(readTwo).toEqual(['a', 'a']);
}

/** Sends these bytes without an end; returns their number until the connection is closed. */
function sendEndlessly(socket: Socket, before: string, unit: string): Promise<number> {
  const part = Buffer.alloc(MIB, unit);
  let sent = 0;
  const send = () => {
    while (!socket.destroyed && socket.write(part)) sent += part.length;
    sent += part.length;
  };
  socket.write(before);
  send();
  socket.on('drain', send);
  return new Promise((resolve) => socket.on('close', () => resolve(sent)));
}

it.each([
  ['without values', '*0\r\n'],
  ['of null', '*-1\r\n'],
  ['of too few values', '*1\r\n$1\r\na\r\n'],
  ['of too many values', '*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n'],
  ['of a number of values that is none', '*x\r\n'],
  ['of a length that is none', '*2\r\n$1x\r\na\r\n$-1\r\n'],
  ['of a negative length', '*2\r\n$-2\r\n$-1\r\n'],
  ['of values longer than said', '*2\r\n$1\r\nab\r\n$-1\r\n'],
])('a reply to a read of two keys %s is a miss, and later reads use a new connection', async (_, bytes) => {
  server.answer = (socket) => socket.write(bytes);
  const before = server.connections;
  expect(await readTwo()).toBeUndefined();
  await expectAnswers();
  expect(server.connections).toBe(before + 1);
});

it.each([
  ['a value', '*2\r\n$4294967295\r\n', 'x', 9 * MIB, readTwo],
  ['a number', '*2\r\n$', '1', 9 * MIB, readTwo],
  ['an error', '-ERR ', 'x', 9 * MIB, readTwo],
  ['a count', '*2\r\n$1\r\n0\r\n$4294967295\r\n', 'x', 8 * MIB, () => redis.countWindow('k', USE)],
])('%s without an end is a failure, and its bytes are bounded', async (_, before, unit, bytes, ask) => {
  let sent: Promise<number> | undefined;
  server.answer = (socket) => {
    sent ??= sendEndlessly(socket, before, unit);
  };
  const asked = ask();
  await expect.poll(() => sent).toBeDefined();
  expect(await sent).toBeLessThan(bytes + HELD_BYTES);
  expect(await asked).toBeUndefined();
  await expectAnswers();
});

it.each([
  ...['*0\r\n', '*-1\r\n', '$-1\r\n', ':7\r\n', '+OK\r\n', '*2\r\n:9\r\n$1\r\n1\r\n'],
  ...['*2\r\n$1\r\n0\r\n:1\r\n', '*1\r\n*-1\r\n'],
])('a reply of %j to another command is a failure, and never an exception', async (bytes) => {
  server.answer = (socket) => socket.write(bytes);
  expect(await redis.countWindow('k', USE)).toBeUndefined();
  await redis.read('k');
  // nothing depends on a write
  await redis.setMany([['k', Buffer.alloc(100), 1_000]]);
});

const VALUE = '*1\r\n$1\r\na\r\n';
/** Bytes that are no reply to the command that they follow, or more than one. */
const ATTACKS: Record<string, string> = {
  'a second reply of null': `${VALUE}$-1\r\n`,
  'a reply of null before the reply': `*-1\r\n${VALUE}`,
  'a thousand replies': VALUE + '+OK\r\n'.repeat(1_000),
  'a push of null': `>1\r\n_\r\n${VALUE}`,
  'a push of a message': `>1\r\n$7\r\nmessage\r\n${VALUE}`,
  'null of RESP3': `${VALUE}_\r\n`,
  'bytes of another protocol': '\x16\x03\x01\x02\0\x01\0\x01\0\r\n\r\n',
  'an array of 33 million values': '*33554431\r\n',
  'arrays of 33 million values in each other': `*1\r\n${'*33554431\r\n'.repeat(100)}`,
  'a hundred thousand nested arrays': '*1\r\n'.repeat(100_000),
  'half a million empty values': `*500000\r\n${'$0\r\n\r\n'.repeat(500_000)}`,
  'a line without an end': `+${'x'.repeat(16 * MIB)}`,
  'an array of length -5': '*-5\r\n',
};

describe('a server that sends', () => {
  it.each(Object.entries(ATTACKS))('%s loses its connections, and is used afterwards', async (_, bytes) => {
    server.answer = (socket) => socket.write(bytes);
    const before = server.connections;
    await Promise.all([readTwo(), redis.read('k'), redis.countWindow('k', USE)]);
    await expect.poll(() => server.connections).toBe(before + 2);
    await expectAnswers();
    await expect.poll(() => redis.read('k')).toEqual(Buffer.from('a'));
  });

  it.each(Object.entries(ATTACKS))('%s in the handshake is no connection', async (_, bytes) => {
    server.info = bytes;
    const other = new Redis(server.url, TIMEOUT_MS, () => {});
    const before = server.connections;
    await expect.poll(() => server.connections).toBeGreaterThan(before + 2);
    server.info = INFO;
    expect(await waitUntilReady(other, TIMEOUT_MS)).toBe(true);
    other.close();
  });
});

it('replies without an end are bounded for all servers together', async () => {
  let closed = 0;
  server.answer = (socket: Socket) => {
    socket.once('close', () => closed++);
    socket.write('*2\r\n$8000000\r\n');
    socket.write(Buffer.alloc(7 * MIB));
  };
  const others = Array.from({ length: 24 }, () => new Redis(server.url, TIMEOUT_MS, () => {}));
  for (const other of others) {
    expect(await waitUntilReady(other, TIMEOUT_MS)).toBe(true);
    void other.sendMget(mgetOf(['1', '2']), 2, new ValuesReader({ keys: 2 }));
  }
  await expect.poll(() => closed).toBeGreaterThan(0);
  for (const other of others) other.close();
});
