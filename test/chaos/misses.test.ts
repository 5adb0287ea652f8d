import { expect, it } from 'vitest';
import { Client } from '../support/client.ts';
import { timesSilent } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { monitorRedis } from '../support/redis-monitor.ts';
import { untilStopped } from '../support/stopped.ts';
import { tcpConnections } from '../support/tcp-connections.ts';
import { hotelBody } from './hotels.ts';
import { Fixture } from './service-fixture.ts';

await needs('redis-server');

const CLIENTS = 50;
/** One of each, and those of the service itself: a probe after the stall, the page index, the reload of a key. */
const MAX_COMMANDS = 5;

it('misses of one event-loop iteration join into one MGET and one query', async () => {
  const { service, redis } = await Fixture.set({ workers: 1, hotels: CLIENTS + 1, warm: 1 });
  const received = await monitorRedis(redis.url);
  const commands = async () => ({
    // the check of the write marker once a second is no miss
    mgets: received.filter(({ line }) => /^MGET (?!\S+:marker$)/i.test(line)).length,
    queries: await service.metric('hotel_api_dependency_duration_seconds_count', { dependency: 'postgres' }),
  });
  const keys = { full: service.fullKey, narrow: '' };
  const clients = Array.from({ length: CLIENTS }, () => new Client(service.port, keys, 1));
  const send = (path: (i: number) => string) =>
    Promise.all(clients.map((client, i) => client.request(`/hotels/${path(i)}`, {})));
  // all connections are open, and the worker knows the key
  await send(() => 'chaos-0');

  const before = await commands();
  const silentBefore = timesSilent(service.logs());
  const [worker] = (await service.workerPids()) as [number];
  // the primary, which would replace a worker that is stopped for too long, stops too
  process.kill(service.pid, 'SIGSTOP');
  process.kill(worker, 'SIGSTOP');
  let requesting: ReturnType<typeof send>;
  try {
    await untilStopped(worker);
    requesting = send((i) => `chaos-${i + 1}`);
    // every request is buffered by the kernel: the worker reads all of them in its next iteration
    const unread = async () =>
      (await tcpConnections()).filter(
        ({ localPort, unreadBytes }) => localPort === service.port && unreadBytes > 0,
      );
    await expect.poll(unread, { interval: 1 }).toHaveLength(CLIENTS);
  } finally {
    process.kill(worker, 'SIGCONT');
    process.kill(service.pid, 'SIGCONT');
  }
  const replies = await requesting;
  const after = await commands();
  for (const client of clients) client.close();

  expect(replies.map(({ text }) => text)).toEqual(replies.map((_, i) => hotelBody(i + 1)));
  for (const kind of ['mgets', 'queries'] as const) {
    // after a stop that was too long Redis is not read until the feed goes on
    if (kind === 'queries' || timesSilent(service.logs()) === silentBefore)
      expect(after[kind] - before[kind], kind).toBeGreaterThan(0);
    expect(after[kind] - before[kind], kind).toBeLessThanOrEqual(MAX_COMMANDS);
  }
});
