import { expect, it } from 'vitest';
import { CURRENT_WITHIN_MS } from '../../src/log/bounds.ts';
import { Client } from '../support/client.ts';
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
    mgets: received.filter(({ line }) => /^MGET /i.test(line)).length,
    queries: await service.metric('hotel_api_dependency_duration_seconds_count', { dependency: 'postgres' }),
  });
  const keys = { full: service.fullKey, narrow: '' };
  const clients = Array.from({ length: CLIENTS }, () => new Client(service.port, keys, 1));
  const send = (path: (i: number) => string) =>
    Promise.all(clients.map((client, i) => client.request(`/hotels/${path(i)}`, {})));
  // all connections are open, and the worker knows the key
  await send(() => 'chaos-0');

  const before = await commands();
  const [worker] = (await service.workerPids()) as [number];
  const stoppedAtMs = performance.now();
  // the primary, which would replace a worker that is stopped for too long, stops too
  process.kill(service.pid, 'SIGSTOP');
  process.kill(worker, 'SIGSTOP');
  let requesting: ReturnType<typeof send>;
  let stoppedMs = 0;
  try {
    await untilStopped(worker);
    requesting = send((i) => `chaos-${i + 1}`);
    // every request is buffered by the kernel: the worker reads all of them in its next iteration
    const unread = async () =>
      (await tcpConnections()).filter(
        ({ localPort, unreadBytes }) => localPort === service.port && unreadBytes > 0,
      );
    await expect.poll(unread, { interval: 1 }).toHaveLength(CLIENTS);
    stoppedMs = performance.now() - stoppedAtMs;
  } finally {
    process.kill(worker, 'SIGCONT');
    process.kill(service.pid, 'SIGCONT');
  }
  const replies = await requesting;
  const after = await commands();
  for (const client of clients) client.close();

  expect(replies.map(({ text }) => text)).toEqual(replies.map((_, i) => hotelBody(i + 1)));
  for (const kind of ['mgets', 'queries'] as const) {
    // after a longer stop Redis is not read until the worker is current again
    if (kind === 'queries' || stoppedMs < CURRENT_WITHIN_MS / 2)
      expect(after[kind] - before[kind], kind).toBeGreaterThan(0);
    expect(after[kind] - before[kind], kind).toBeLessThanOrEqual(MAX_COMMANDS);
  }
});
