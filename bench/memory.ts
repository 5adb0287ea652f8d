import { setTimeout as sleep } from 'node:timers/promises';
import type { Shutdown } from '../src/lib/shutdown.ts';
import { childrenOf } from '../test/support/processes.ts';
import { readHotels } from './hotels.ts';
import type { Call } from './load/call.ts';
import { closedLoop } from './load/closed.ts';
import { sendOnce } from './load/connection.ts';
import { accepting, batch, batchOf, page, withChannel } from './scenarios.ts';
import { residentBytes } from './sizing.ts';
import { readMetric } from './targets/service.ts';
import { startAlone, untilSequenced } from './world.ts';

const MIB = 1024 ** 2;
const BATCH = 1000;
/** Batches that are requested at once. */
const AT_ONCE = 64;
/** Number of hotels that are requested again and again. */
const HOT = 50_000;
const SECONDS = 10;
const SAMPLE_MS = 100;
const PAGE = 100;

interface MemoryOptions {
  hotels: number;
  /** number of hotels that are read, once each */
  ids: number;
  /** local cache of the worker, MiB */
  cache: number;
}

/**
 * Prints the memory of a worker beside its local cache, after reading many ids and during batches of 1000. Then it
 * prints the time of pages at both ends of the list, of batches, of a restart and of an UPDATE of all hotels.
 */
export async function runMemory(
  { hotels: count, ids, cache }: MemoryOptions,
  shutdown: Shutdown,
): Promise<void> {
  const { sql, keys, ...alone } = await startAlone('memory', count, shutdown);
  const start = () => alone.start({ L1_MAX_BYTES: String(cache * MIB), DATABASE_TIMEOUT_MS: '10000' });
  let target = await start();
  const deliveredS = await untilSequenced(sql);
  console.log(`changes delivered: ${deliveredS.toFixed(1)} s after the service was ready`);
  const [worker] = await childrenOf(target.pid);
  const named = withChannel(await readHotels(sql, { offset: 0, limit: ids }));
  const calls: Call[] = [];
  for (let from = 0; from < named.length; from += BATCH)
    calls.push(batchOf(named.slice(from, from + BATCH), keys.full, true));
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
        `${Math.round(cacheBytes / MIB)} MiB; primary ${Math.round((await residentBytes(target.pid)) / MIB)} MiB${how ? `; ${how}` : ''}`,
    );
  };
  const send = (sent: Call[], connections: number, seconds: number, requests?: number) => async () => {
    const result = await closedLoop(target.port, sent, { connections, seconds, requests });
    return `${result.requests} requests, ${result.faultCount} of them rejected, p50 ${(result.p50Us / 1000).toFixed(1)} ms`;
  };
  await report('at the start');
  await report(`${named.length} ids of ${count}, once each`, send(calls, 4, 600, calls.length));
  await report(`${AT_ONCE} batches at once`, send(hot, AT_ONCE, SECONDS));
  const compressed = hot.map((call) => accepting('gzip', call));
  await report(`${AT_ONCE} batches at once with gzip`, send(compressed, AT_ONCE, SECONDS));
  await report(`${AT_ONCE} batches at once of all ids`, send(calls, AT_ONCE, SECONDS));
  const zipf = batch(BATCH, 400, 1, true, true).calls({ hotels: named, keys });
  await report('batches by Zipf, one client', send(zipf, 1, SECONDS));
  const around = { hotels: await readHotels(sql, { offset: count - PAGE, limit: PAGE }), keys };
  const last = page(around, 0, PAGE);
  last.bytes = Buffer.from(last.bytes.toString().replace('offset=0', `offset=${count - PAGE}`));
  const first = page({ hotels: await readHotels(sql, { offset: 0, limit: PAGE }), keys }, 0, PAGE);
  await report('the first page, one client', send([first], 1, 1));
  const requestedAtMs = performance.now();
  // positions behind many inserts are counted before the page is answered
  const isAnswered = () =>
    sendOnce(target.port, last).then(
      () => true,
      () => false,
    );
  while (!(await isAnswered())) await sleep(SAMPLE_MS);
  console.log(`the last page, first response: ${seconds(requestedAtMs)}`);
  await report('the last page, one client', send([last], 1, 1));
  const stoppedAtMs = performance.now();
  await target.stop();
  target = await start();
  console.log(`restart until ready: ${seconds(stoppedAtMs)}`);
  const updatedAtMs = performance.now();
  let committedAtMs = 0;
  const afterS = await untilSequenced(sql, async () => {
    await sql`update hotels set room_count = room_count`;
    committedAtMs = performance.now();
  });
  console.log(
    `UPDATE of all: ${((committedAtMs - updatedAtMs) / 1000).toFixed(1)} s, delivered ${afterS.toFixed(1)} s after it`,
  );
}

function seconds(sinceMs: number): string {
  return `${((performance.now() - sinceMs) / 1000).toFixed(1)} s`;
}
