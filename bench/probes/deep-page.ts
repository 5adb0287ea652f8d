import { setTimeout as sleep } from 'node:timers/promises';
import { createKey } from '../../src/cli/keys.ts';
import { readHotels } from '../hotels.ts';
import { type Call, requestBytes } from '../load/call.ts';
import { closedLoop } from '../load/closed.ts';
import { sendOnce } from '../load/connection.ts';
import { startService } from '../targets/service.ts';
import { makeDatabase, redisUrlOf, type World } from '../world.ts';
import type { Probe } from './probe.ts';

const REDIS_DATABASE = 3;
const PAGE = 100;
const REQUESTS = 50;

/** Maximum time to wait until the service has indexed the positions of the list. */
const SETTLE_MS = 60_000;
const PAUSE_MS = 200;
const QUICK_MS = 30;

async function settle(sendOnce: () => Promise<number>): Promise<number> {
  const beganAtMs = performance.now();
  while ((await sendOnce()) > QUICK_MS && performance.now() - beganAtMs < SETTLE_MS) await sleep(PAUSE_MS);
  return performance.now() - beganAtMs;
}

/** Compares the last page of `count` hotels with the first, with one client: medians of 50 requests, ms. */
export async function deepPage(world: World, count: number, rounds: number): Promise<Probe> {
  const { sql, databaseUrl } = await makeDatabase(world, 'million', count);
  const { key } = await createKey(sql, { name: 'bench', scopes: ['registry'], expiresAt: null });
  const service = await startService(
    { ...world.targetOptions, databaseUrl, redisUrl: redisUrlOf(world.redis, REDIS_DATABASE) },
    { name: 'service' },
  );
  world.shutdown.push('the service of a million', service.stop, 12_000);
  const callAt = async (offset: number): Promise<Call> => {
    const hotels = await readHotels(sql, { offset, limit: PAGE });
    const bodyBytes = hotels.reduce((sum, { fullBytes }) => sum + fullBytes + 1, 1);
    const bytes = requestBytes({ path: `/hotels?limit=${PAGE}&offset=${offset}`, key });
    return { bytes, status: 200, bodyBytes };
  };
  const [deep, first] = [await callAt(count - PAGE), await callAt(0)];
  const settledMs = await settle(async () => {
    const beganAtMs = performance.now();
    await sendOnce(service.port, deep).catch(() => {});
    return performance.now() - beganAtMs;
  });
  world.log(`  deep pages became fast ${(settledMs / 1000).toFixed(1)} s after the first request`);
  const medianMs = async (call: Call) => {
    const load = { connections: 1, seconds: 20, requests: REQUESTS };
    const result = await closedLoop(service.port, [call], load);
    if (result.faultCount > 0) throw new Error(`the page of a million hotels: ${result.faults[0]}`);
    return result.p50Us / 1000;
  };
  const ours: number[] = [];
  const theirs: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    const [deepMs, firstMs] = [await medianMs(deep), await medianMs(first)];
    // the first round fills caches
    if (round === 0) continue;
    ours.push(deepMs);
    theirs.push(firstMs);
  }
  await service.stop();
  await sql.end();
  return {
    name: 'deep-page',
    what: `a page of 100 of ${count} hotels, ms: at offset ${count - PAGE} against offset 0`,
    ours,
    theirs,
  };
}
