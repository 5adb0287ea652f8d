import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { openDatabase } from './connect.ts';

const CONNECTIONS = 3;
/** AuthenticationOk and ReadyForQuery. */
const READY = Buffer.from('R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I', 'latin1');
/** Pause between two tries of a connection, in virtual time. */
const PAUSE_MS = 300;

const servers: Server[] = [];

/** A peer that does this with each connection. Counts them. */
async function peer(
  behave: (socket: Socket) => void,
): Promise<{ authority: string; accepted: () => number }> {
  let accepted = 0;
  const server = createServer((socket) => {
    accepted++;
    socket.on('error', () => {});
    behave(socket);
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { authority: `127.0.0.1:${(server.address() as AddressInfo).port}`, accepted: () => accepted };
}

const ends = (socket: Socket): void => {
  socket.end();
};
const isReady = (socket: Socket): void => {
  socket.once('data', () => socket.write(READY));
};
const endsAfterAnswer = (socket: Socket): void => {
  socket.once('data', () => socket.end('S'));
};

const PURPOSE = { kind: 'serve', deadlineMs: 500, pooled: false } as const;
const poolOf = (authorities: string[], parameters = '') =>
  openDatabase(`postgres://user@${authorities.join(',')}/hotels${parameters}`, CONNECTIONS, PURPOSE);

/** Drops the timeout of connections, 2 s in postgres.js: it could fail a query before the peer does. */
const dropTimeout = (real = globalThis.setTimeout) =>
  vi.stubGlobal('setTimeout', (...all: Parameters<typeof real>) => all[1] === 2_000 || real(...all));

afterEach(() => {
  vi.unstubAllGlobals();
  for (const server of servers.splice(0)) server.close();
});

describe('a pool whose peer accepts connections and ends them', () => {
  it.each(['', '?sslmode=require'])('fails the query at once: %s', async (parameters) => {
    dropTimeout();
    const { authority, accepted } = await peer(ends);
    const sql = poolOf([authority], parameters);
    await expect(sql`select 1`).rejects.toMatchObject({ code: 'CONNECTION_UNANSWERED' });
    expect(accepted()).toBe(1);
    await sql.end({ timeout: 0 });
  });

  it.each([
    ['several hosts', '', ends],
    ['the handshake of TLS', '?sslmode=require', endsAfterAnswer],
  ] as const)('tries again after a pause: %s', async (_, parameters, behave) => {
    dropTimeout();
    const clock = new VirtualClock();
    const peers = [await peer(behave), await peer(behave)];
    const authorities = peers.map(({ authority }) => authority);
    const sql = poolOf(authorities, parameters);
    const queries = Array.from({ length: CONNECTIONS }, () => sql`select 1`.catch(() => {}));
    for (let tries = 1; tries <= 4; tries++) {
      const sum = () => peers[0]!.accepted() + peers[1]!.accepted();
      await expect.poll(sum).toBe(tries * CONNECTIONS * peers.length);
      await clock.pass(PAUSE_MS);
    }
    await sql.end({ timeout: 0 });
    await Promise.all(queries);
    for (const { accepted } of peers) expect(accepted()).toBeGreaterThan(CONNECTIONS);
  });
});

it('a pool with several hosts uses the first one while its connections last', async () => {
  const peers = [await peer(isReady), await peer(isReady)];
  const sql = poolOf(peers.map(({ authority }) => authority));
  const queries = Array.from({ length: CONNECTIONS }, () => sql`select 1`.catch(() => {}));
  await expect.poll(() => peers.map((each) => each.accepted())).toEqual([CONNECTIONS, 0]);
  await sql.end({ timeout: 0 });
  await Promise.all(queries);
});

it('a new pool leaves a host that answered nothing to an earlier one', async () => {
  const silent = await peer((socket) => void socket.resume());
  const ready = await peer(isReady);
  const authorities = [silent, ready].map(({ authority }) => authority);
  const first = poolOf(authorities);
  await expect(first`select 1`).rejects.toMatchObject({ code: 'CONNECT_TIMEOUT' });
  await first.end({ timeout: 0 });
  expect(ready.accepted()).toBe(0);
  const second = poolOf(authorities);
  const query = second`select 1`.catch(() => {});
  await expect.poll(ready.accepted).toBe(1);
  await second.end({ timeout: 0 });
  await query;
});

it('the server is told by which name it was reached, as its certificate is checked', async () => {
  dropTimeout();
  let sent = '';
  const { authority } = await peer((socket) => {
    socket.once('data', () => {
      socket.write('S');
      socket.once('data', (hello) => {
        sent = hello.toString('latin1');
        socket.destroy();
      });
    });
  });
  const sql = poolOf([authority.replace('127.0.0.1', 'localhost')], '?sslmode=require');
  await expect(sql`select 1`).rejects.toThrow();
  expect(sent).toContain('localhost');
  await sql.end({ timeout: 0 });
});
