import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { Redis, type RedisOptions } from 'ioredis';
import { expect } from 'vitest';
import { closeAtEnd } from './cleanup.ts';
import type { Service } from './service.ts';

/** Opens a client of any Redis, which waits for it during a restart; it is closed at the end of the file. */
export function redisClient(url: string, options: RedisOptions = {}): Redis {
  const client = new Redis(url, {
    ...{ protocol: 2, retryStrategy: () => 50, maxRetriesPerRequest: null },
    ...options,
  });
  // requests show what is wrong
  client.on('error', () => {});
  closeAtEnd('a client of Redis', async () => client.disconnect());
  return client;
}

export const REDIS_HITS = { tier: 'redis', result: 'hit' };

/** Requests a batch, whose hotels all exist, until the service has read all of them from Redis. */
export async function untilRedisServes(service: Service, batch: { channel_ids: string[] }): Promise<void> {
  const { length } = batch.channel_ids;
  const hits = () => service.metric('hotel_api_cache_lookups_total', REDIS_HITS);
  const hitsOfOne = async () => {
    const before = await hits();
    expect((await service.post('/hotels/channel/batch', batch)).json()).toHaveLength(length);
    return (await hits()) - before;
  };
  await expect.poll(hitsOfOne).toBeGreaterThanOrEqual(length);
}

/** A command that Redis has received, its words separated by spaces, and the address of its connection. */
export interface RedisCommand {
  line: string;
  from: string;
}

/** Returns what Redis receives for this database from now on, in the order of its receipt. */
export async function monitorRedis(url: string): Promise<RedisCommand[]> {
  const { hostname, port, pathname } = new URL(url);
  // ioredis 6 throws if commands arrive while its monitor starts
  const socket = connect(Number(port), hostname);
  closeAtEnd('monitor of Redis', async () => {
    socket.destroy();
  });
  socket.write('MONITOR\r\n');
  const lines = createInterface(socket);
  await once(lines, 'line');
  const received: RedisCommand[] = [];
  lines.on('line', (line) => {
    const [, database, from, text] = /^\+\S+ \[(\d+) (\S+)\] (.*)$/.exec(line) ?? [];
    if (database === pathname.slice(1)) received.push({ line: text!.replaceAll('"', ''), from: from! });
  });
  return received;
}
