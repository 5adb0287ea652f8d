import { expect, it } from 'vitest';
import { closeAtEnd } from '../support/cleanup.ts';
import { residentMiB, workersOf } from '../support/processes.ts';
import { RawConnection } from '../support/raw-connection.ts';
import { startService } from '../support/service.ts';
import { expectAnswered, SteadyLoad } from '../support/steady-load.ts';

const HOTELS = 1_000;
/** Clients of each kind. */
const MANY = 25;
/** Memory that a worker may use for unsent responses, and overhead of allocators. */
const KEPT_MIB = 256;
const SLACK_MIB = 128;

const hotels = (kind: string, bytes: number) =>
  Array.from({ length: HOTELS }, (_, i) => ({
    id: `${kind}-${i}`,
    channel_id: `CH-${kind}-${i}`,
    description: 'x'.repeat(bytes),
  }));
const [mega, huge] = [hotels('mega', 650), hotels('huge', 8_000)];
const service = await startService({ hotels: [...mega, ...huge] });
const pids = await workersOf(service, 1);
const head = `Host: a\r\nx-api-key: ${service.fullKey}\r\n`;
const batchOf = async (requested: { channel_id: string }[]) => {
  const body = JSON.stringify({ channel_ids: requested.map(({ channel_id }) => channel_id) });
  expect((await service.post('/hotels/channel/batch', body)).status).toBe(200);
  return `POST /hotels/channel/batch HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`;
};
const batch = await batchOf(mega);
const hugeBatch = await batchOf(huge);

/** Connects and writes; the connection is closed at the end of the file. */
async function connected(bytes: string): Promise<RawConnection> {
  const connection = new RawConnection(service.port);
  closeAtEnd('a slow client', async () => connection.close());
  await connection.write(bytes);
  return connection;
}

it('slow senders and readers are disconnected, clients that leave cost nothing, and others are served', async () => {
  const { text: answer } = await service.get('/hotels/mega-1');
  const others = new SteadyLoad(service, [{ path: '/hotels/mega-1', answer }]);
  const connections = () => service.metric('hotel_api_connections');
  await others.answers(10);
  const before = await connections();
  const beforeMiB = await residentMiB(pids);

  const get = `GET /hotels/mega-1 HTTP/1.1\r\n${head}`;
  const senders: RawConnection[] = [];
  for (let i = 0; i < MANY; i++) {
    senders.push(await connected(''), await connected(get));
    for (const begun of [`${get}x-a: `, batch.slice(0, 600), `${get}\r\nGET /hotels`]) {
      const sender = await connected(begun);
      sender.dribble('1');
      senders.push(sender);
    }
  }
  // more than the kernel buffers for a client: the rest is in the worker
  for (let i = 0; i < 60; i++) {
    const reader = await connected(i % 2 === 0 ? batch : hugeBatch);
    reader.pause();
    await others.answers(1);
  }
  const most = await residentMiB(pids);
  for (let i = 0; i < 200; i++) {
    const body = JSON.stringify({ channel_ids: [`nowhere-${i}`, `neither-${i}`] });
    const leaving = await connected(
      `POST /hotels/channel/batch HTTP/1.1\r\n${head}Content-Length: ${body.length}\r\n\r\n${body}`,
    );
    leaving.reset();
  }
  await Promise.all(senders.map(({ closed }) => closed));
  // clients that do not read miss the disconnect, but the server counts it
  await expect.poll(connections).toBeLessThanOrEqual(before + 5);
  expect(Math.max(most, await residentMiB(pids)) - beforeMiB).toBeLessThan(KEPT_MIB + SLACK_MIB);
  await expectAnswered(others);
  expect(await service.workerPids()).toEqual(pids);
});

it.concurrent.each([
  ['a length', `Content-Length: ${2 ** 20}`],
  ['chunks', 'Transfer-Encoding: chunked'],
])('a batch with %s that arrives a byte a second receives 408 and is disconnected', async (_, framing) => {
  const connection = await connected(`POST /hotels/channel/batch HTTP/1.1\r\n${head}${framing}\r\n\r\n`);
  connection.dribble('1');
  await connection.closed;
  expect(connection.unread).toMatch(
    /^HTTP\/1\.1 408 .*\r\nconnection: close\r\n.*\{"error":"Request body arrived too slowly"\}$/is,
  );
});
