import { setTimeout as sleep } from 'node:timers/promises';
import { createKey } from '../src/cli/keys.ts';
import { startPostgres } from '../src/demo/servers/postgres.ts';
import { childrenOf } from '../src/demo/servers/processes.ts';
import { startRedis } from '../src/demo/servers/redis.ts';
import type { Shutdown } from '../src/lib/shutdown.ts';
import { readHotels } from './hotels.ts';
import type { Call } from './load/call.ts';
import { closedLoop } from './load/closed.ts';
import { accepting, batchOf, withChannel } from './scenarios.ts';
import { residentBytes } from './sizing.ts';
import { readMetric, startService } from './targets/service.ts';
import { makeDatabase } from './world.ts';

const MIB = 1024 ** 2;
const BATCH = 1000;
/** Batches that are requested at once. */
const AT_ONCE = 64;
/** Number of hotels that are requested again and again. */
const HOT = 50_000;
const SECONDS = 10;
const SAMPLE_MS = 100;

export interface MemoryOptions {
  hotels: number;
  /** number of hotels that are read, once each */
  ids: number;
  /** local cache of the worker, MiB */
  cache: number;
}

/** Prints the memory of a worker beside its local cache: after reading many ids, and during batches of 1000. */
export async function runMemory(
  { hotels: count, ids, cache }: MemoryOptions,
  shutdown: Shutdown,
  say: (sentence: string) => void,
): Promise<void> {
  const postgres = await startPostgres();
  shutdown.push('PostgreSQL', () => postgres.stop(), 12_000);
  const redis = await startRedis(say);
  if (!redis) throw new Error('no Redis was found, and none could be downloaded');
  shutdown.push('Redis', () => redis.stop(), 12_000);
  say(`Generating ${count} hotels …`);
  const { sql, databaseUrl } = await makeDatabase({ postgres, shutdown }, 'memory', count);
  const { key } = await createKey(sql, { name: 'memory', scopes: ['registry'], expiresAt: null });
  const target = await startService(
    { pin: [], databaseUrl, redisUrl: redis.url, peerRedisUrl: redis.url, keys: { full: key, narrow: key } },
    { name: 'service', environment: { L1_MAX_BYTES: String(cache * MIB), DATABASE_TIMEOUT_MS: '10000' } },
  );
  shutdown.push('service', target.stop, 12_000);
  const [worker] = await childrenOf(target.pid);
  const named = withChannel(await readHotels(sql, { offset: 0, limit: ids }));
  const calls: Call[] = [];
  for (let from = 0; from < named.length; from += BATCH)
    calls.push(batchOf(named.slice(from, from + BATCH), key, true));
  const hot = calls.slice(0, HOT / BATCH);

  const report = async (what: string, load?: () => Promise<string>) => {
    let peakBytes = 0;
    let sampling = true;
    const look = async () => {
      peakBytes = Math.max(peakBytes, await residentBytes(worker!));
    };
    const sampled = (async () => {
      for (; sampling; await sleep(SAMPLE_MS)) await look();
    })();
    const how = await load?.();
    sampling = false;
    await sampled;
    await look();
    const cacheBytes = await readMetric(target, 'hotel_api_local_cache_bytes');
    const now = (await residentBytes(worker!)) - cacheBytes;
    console.log(
      `${what}: ${Math.round(now / MIB)} MiB, at most ${Math.round((peakBytes - cacheBytes) / MIB)} MiB beside a cache of ` +
        `${Math.round(cacheBytes / MIB)} MiB${how ? `; ${how}` : ''}`,
    );
  };
  const send = (sent: Call[], connections: number, seconds: number, requests?: number) => async () => {
    const result = await closedLoop(target.port, sent, {
      ...{ connections, seconds, from: 0 },
      ...(requests !== undefined && { requests }),
    });
    return `${result.requests} batches, ${result.faultCount} of them refused`;
  };
  await report('at the start');
  await report(`${named.length} ids of ${count}, once each`, send(calls, 4, 600, calls.length));
  await report(`${AT_ONCE} batches at once`, send(hot, AT_ONCE, SECONDS));
  const compressed = hot.map((call) => accepting('gzip', call));
  await report(`${AT_ONCE} batches at once with gzip`, send(compressed, AT_ONCE, SECONDS));
  const [first] = calls;
  await report(`${AT_ONCE} batches at once of all ids`, send(calls, AT_ONCE, SECONDS));
  say(`A batch has ${Math.round(first!.bodyBytes / 1000)} kB.`);
}
