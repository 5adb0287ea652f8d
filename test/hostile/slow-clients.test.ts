import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it, vi } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { addResult, promisedMs, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { Bystander, expectUnharmed } from './bystander.ts';
import { residentMiB, workersOf } from './memory.ts';

const HOTELS = 1_000;
/** Memory that a worker may use for unsent responses, and overhead of allocators. */
const KEPT_MIB = 256;
const SLACK_MIB = 128;
const CLOSED_WITHIN_MS = promisedMs(15_000);

let service: Service;
let pids: number[];
let head: string;
let batch: string;
let hugeBatch: string;

beforeAll(async () => {
  const hotels = (kind: string, bytes: number) =>
    Array.from({ length: HOTELS }, (_, i) => ({
      id: `${kind}-${i}`,
      channel_id: `CH-${kind}-${i}`,
      description: 'x'.repeat(bytes),
    }));
  const [mega, huge] = [hotels('mega', 650), hotels('huge', 8_000)];
  service = await startService({ workers: 2, hotels: [...mega, ...huge] });
  pids = await workersOf(service, 2);
  head = `Host: a\r\nx-api-key: ${service.fullKey}\r\n`;
  const batchOf = (requested: { channel_id: string }[]) => {
    const body = JSON.stringify({ channel_ids: requested.map(({ channel_id }) => channel_id) });
    return `POST /hotels/channel/batch HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`;
  };
  [batch, hugeBatch] = [batchOf(mega), batchOf(huge)];
  // several at once, on as many connections, until every worker has all hotels in memory
  for (const requested of [mega, huge]) {
    const body = { channel_ids: requested.map(({ channel_id }) => channel_id) };
    const some = () =>
      Promise.all(Array.from({ length: 4 }, () => service.post('/hotels/channel/batch', body)));
    for (let round = 0; round < 6; round++)
      await vi.waitUntil(async () => (await some()).every(({ status }) => status === 200), {
        timeout: 60_000,
      });
  }
});

/** Set of sockets; reports those that the server still holds open. */
class Crowd {
  readonly #sockets: { socket: Socket; kind: string }[] = [];
  /** longest time until a connection was closed */
  longestMs = 0;

  constructor() {
    closeAtEnd('crowd', async () => this.close());
  }

  /** Connects and writes; `then` is the further behaviour of the client. */
  add(kind: string, bytes: string, then: (socket: Socket) => void): void {
    const socket = connect({ port: service.port, host: '127.0.0.1' });
    this.#sockets.push({ socket, kind });
    socket.on('error', () => {});
    const openedMs = performance.now();
    socket.on('close', () => {
      this.longestMs = Math.max(this.longestMs, performance.now() - openedMs);
    });
    socket.on('connect', () => {
      if (bytes) socket.write(bytes);
      then(socket);
    });
  }

  /** Connections still open. */
  get open(): string[] {
    return this.#sockets.filter(({ socket }) => !socket.closed).map(({ kind }) => kind);
  }

  close(): void {
    for (const { socket } of this.#sockets) socket.destroy();
  }
}

function every(ms: number, socket: Socket, act: () => void): void {
  const timer = setInterval(act, ms);
  socket.on('close', () => clearInterval(timer));
}

const writeSlowly = (text: string) => (socket: Socket) => {
  let sent = 0;
  every(1_000, socket, () => socket.write(text[sent++ % text.length]!));
};

const readSlowly = (socket: Socket) => {
  socket.pause();
  every(250, socket, () => socket.read(256));
};

const connections = (): Promise<number> => service.metric('hotel_api_connections');

it('500 slow senders, 260 slow readers and 1000 aborts are disconnected within 15 s, and others are unaffected', async (context) => {
  const bystander = new Bystander(service, ['mega-1', 'mega-2', 'huge-3']);
  await bystander.watch(500);
  const quiet = await bystander.watch(shortOrLong(500, 10_000));
  const beforeMiB = await residentMiB(pids);
  const before = await connections();

  let most = 0;
  const watch = setInterval(async () => {
    most = Math.max(most, await residentMiB(pids));
  }, 100);
  bystander.start();
  const slow = new Crowd();
  const half = `GET /hotels/mega-1 HTTP/1.1\r\n${head}`;
  for (let i = 0; i < 100; i++) {
    slow.add('silent', '', () => {});
    slow.add('half a head', half, () => {});
    slow.add('dribbles its head', `${half}x-a: `, writeSlowly('x'));
    slow.add('dribbles its body', batch.slice(0, 600), writeSlowly('1'));
    slow.add(
      'dribbles after an answer',
      `GET /hotels/mega-1 HTTP/1.1\r\n${head}\r\nGET /hotels`,
      writeSlowly('x'),
    );
  }
  const readers = new Crowd();
  for (let i = 0; i < 100; i++) {
    readers.add('reads nothing', batch, (socket) => socket.pause());
    readers.add('reads 1 kB/s', batch, readSlowly);
    await sleep(10);
  }
  // more than the kernel buffers for a client: the rest is in the worker
  for (let i = 0; i < 60; i++) {
    readers.add('reads 1 kB/s of much', hugeBatch, readSlowly);
    await sleep(25);
  }
  const openedMs = performance.now();
  const leaving = new Crowd();
  for (let i = 0; i < 1_000; i++) {
    const unknown = JSON.stringify({ channel_ids: [`nowhere-${i}`, `neither-${i}`] });
    leaving.add(
      'leaves',
      `POST /hotels/channel/batch HTTP/1.1\r\n${head}Content-Length: ${unknown.length}\r\n\r\n${unknown}`,
      (socket) => setTimeout(() => socket.resetAndDestroy(), i % 5),
    );
    if (i % 50 === 49) await sleep(100);
  }

  const untilMs = openedMs + CLOSED_WITHIN_MS;
  while (performance.now() < untilMs) {
    // clients that do not read miss the disconnect, but the server counts it
    if (slow.open.length === 0 && (await connections()) <= before + 10) break;
    await sleep(100);
  }
  clearInterval(watch);
  const meanwhile = await bystander.stop();
  expect(slow.open).toEqual([]);
  expect(slow.longestMs).toBeLessThan(CLOSED_WITHIN_MS);
  expect(await connections()).toBeLessThanOrEqual(before + 10);
  readers.close();

  addResult(context, 'hostile clients', '500 slowloris, 260 slow readers, 1000 aborts', {
    'closed after s': (slow.longestMs / 1000).toFixed(1),
    'memory + MiB': Math.round(most - beforeMiB),
    "others' p99 ms": `${quiet.p99Ms.toFixed(1)} → ${meanwhile.p99Ms.toFixed(1)}`,
  });
  expect(most - beforeMiB).toBeLessThan(KEPT_MIB + SLACK_MIB);
  expectUnharmed(quiet, meanwhile);
  expect((await service.workerPids()).sort()).toEqual([...pids].sort());
});

it.concurrent.each([
  ['a length', `Content-Length: ${2 ** 20}`],
  ['chunks', 'Transfer-Encoding: chunked'],
])('a batch with %s that arrives a byte a second receives 408 and is disconnected', async (_, framing) => {
  const connection = new RawConnection(service.port);
  closeAtEnd('a slow client', async () => connection.close());
  await connection.write(`POST /hotels/channel/batch HTTP/1.1\r\n${head}${framing}\r\n\r\n`);
  const timer = setInterval(() => connection.write('1'), 1_000);
  await connection.closed;
  clearInterval(timer);
  expect(connection.unread).toMatch(
    /^HTTP\/1\.1 408 .*\r\nconnection: close\r\n.*\{"error":"Request body arrived too slowly"\}$/is,
  );
});
