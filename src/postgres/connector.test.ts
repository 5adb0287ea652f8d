import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { openDatabase } from './connect.ts';

const CONNECTIONS = 3;
/** The shortest pause between two tries of a connection. */
const PAUSE_MS = 200;
const TRIED_MS = 1_000;

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
const endsAfterAnswer = (socket: Socket): void => {
  socket.once('data', () => socket.end('S'));
};

const poolOf = (authorities: string[], parameters = '') =>
  openDatabase(`postgres://user@${authorities.join(',')}/hotels${parameters}`, CONNECTIONS, {
    kind: 'serve',
    statementTimeoutMs: 1_000,
    pooled: false,
  });

afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

describe('a pool whose peer accepts connections and ends them', () => {
  it.each(['', '?sslmode=require'])('fails the query at once: %s', async (parameters) => {
    const { authority, accepted } = await peer(ends);
    const sql = poolOf([authority], parameters);
    await expect(sql`select 1`).rejects.toMatchObject({ code: 'CONNECTION_ENDED' });
    expect(accepted()).toBe(1);
    await sql.end({ timeout: 0 });
  });

  it.each([
    ['several hosts', '', ends],
    ['the handshake of TLS', '?sslmode=require', endsAfterAnswer],
  ] as const)('tries again after a pause: %s', async (_, parameters, behave) => {
    const peers = [await peer(behave), await peer(behave)];
    const sql = poolOf(
      peers.map(({ authority }) => authority),
      parameters,
    );
    const beganMs = performance.now();
    const queries = Array.from({ length: CONNECTIONS }, () => sql`select 1`.catch(() => {}));
    await sleep(TRIED_MS);
    const pauses = Math.ceil((performance.now() - beganMs) / PAUSE_MS);
    await sql.end({ timeout: 0 });
    await Promise.all(queries);
    const accepted = peers.map((each) => each.accepted());
    // both hosts are tried
    expect(Math.min(...accepted)).toBeGreaterThanOrEqual(CONNECTIONS);
    expect(Math.max(...accepted)).toBeLessThanOrEqual(CONNECTIONS * (1 + pauses));
  });
});

it('a pool that has ended opens no further connection', async () => {
  const { authority, accepted } = await peer(ends);
  const other = await peer(ends);
  const sql = poolOf([authority, other.authority]);
  const queries = Array.from({ length: CONNECTIONS }, () => sql`select 1`.catch(() => {}));
  await expect.poll(() => accepted() + other.accepted()).toBe(2 * CONNECTIONS);
  // the next ones wait for their turn
  await sql.end({ timeout: 0 });
  await Promise.all(queries);
  await sleep(3 * PAUSE_MS);
  expect(accepted() + other.accepted()).toBe(2 * CONNECTIONS);
});
