import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, type TestContext } from 'vitest';
import { whole } from '../../bench/figures.ts';
import { needs } from '../support/needs.ts';
import { addResult, shortOrLong } from '../support/run-length.ts';
import { type Service, type ServiceOptions, startBehindProxy, startService } from '../support/service.ts';
import { hotelBody, hotelRow } from './hotels.ts';

await needs('redis');

const CLIENTS = 500;
const ENTRIES = shortOrLong(5_000, 10_000);
const MANY = whole(ENTRIES);
const WINDOW_MS = 1_000;

/** Returns the number of keys loaded from PostgreSQL. */
const loads = (service: Service): Promise<number> =>
  service.metric('hotel_api_cache_lookups_total', { tier: 'postgres' });

describe('500 clients that request one id when it has just expired', () => {
  it('cause at most one query of each worker', async (context) => {
    const { service, proxy } = await startBehindProxy({
      workers: 2,
      hotels: [hotelRow(1)],
      // only Redis holds it, for a second
      env: { L1_MAX_BYTES: '0', REDIS_TTL_S: '1', ABSENT_TTL_S: '1', DATABASE_TIMEOUT_MS: '60000' },
    });
    const send = (path: string) => service.get(`/hotels/${path}`);
    const rows: number[] = [];
    for (const [path, answer] of [
      ['chaos-1', hotelBody(1)],
      ['channel/CH-1', hotelBody(1)],
      ['unknown', '{"error":"Hotel not found"}'],
    ] as const) {
      // every worker has it, on as many connections as will be used
      await Promise.all(Array.from({ length: CLIENTS }, () => send(path)));
      await expect.poll(() => service.redis!.dbsize()).toBe(0);
      const before = await loads(service);
      // all requests arrive before the first response
      proxy.blackout('hotel-api serve');
      const sent = Array.from({ length: CLIENTS }, () => send(path));
      await expect.poll(() => service.metric('hotel_api_requests_in_progress')).toBe(CLIENTS);
      await proxy.heal();
      expect((await Promise.all(sent)).map(({ text }) => text)).toEqual(new Array(CLIENTS).fill(answer));
      rows.push((await loads(service)) - before);
    }
    addResult(context, 'load', '500 clients on one expired id, two workers', {
      'queries at most': Math.max(...rows),
    });
    for (const queries of rows) expect(queries).toBeLessThanOrEqual(2);
    expect(Math.max(...rows)).toBeGreaterThan(0);
  });
});

/**
 * Fills the caches with all entries at once, and requests them until `forMs` after the first was loaded again. Compares
 * the busiest second with the mean.
 */
async function evenly(
  context: TestContext,
  name: string,
  options: ServiceOptions,
  forMs: number,
  meanwhile: () => Promise<unknown>,
): Promise<void> {
  const service = await startService({
    hotels: Array.from({ length: ENTRIES }, (_, i) => hotelRow(i)),
    workers: 1,
    ...options,
  });
  const bodies = Array.from({ length: ENTRIES / 500 }, (_, i) => ({
    channel_ids: Array.from({ length: 500 }, (_, j) => `CH-${500 * i + j}`),
  }));
  const sweep = async () => {
    for (const body of bodies) expect((await service.post('/hotels/channel/batch', body)).status).toBe(200);
  };
  if (options.redis !== false) {
    await sweep();
    await service.redis!.flushdb();
  }
  let filled = -1;
  for (let loaded = 0; loaded !== filled; loaded = await loads(service)) {
    filled = loaded;
    await sweep();
  }
  expect(filled).toBeGreaterThanOrEqual(ENTRIES);

  const seen: { atMs: number; loads: number }[] = [];
  const note = async () => seen.push({ atMs: performance.now(), loads: (await loads(service)) - filled });
  let over = false;
  const others = (async () => {
    while (!over) await meanwhile();
  })();
  const again = () => seen.find((each) => each.loads > 0);
  const timeoutMs = performance.now() + 30_000;
  try {
    for (;;) {
      await sweep();
      await note();
      const first = again();
      if (first && performance.now() > first.atMs + forMs) break;
      if (!first && performance.now() > timeoutMs) throw new Error('nothing expired');
    }
  } finally {
    over = true;
    await others;
  }

  const first = seen.indexOf(again()!);
  const span = seen.slice(Math.max(0, first - 1));
  const perSecond = (from: (typeof seen)[number], to: (typeof seen)[number], sinceMs = from.atMs) =>
    (1_000 * (to.loads - from.loads)) / (to.atMs - sinceMs);
  const mean = perSecond(span[0]!, span.at(-1)!);
  let most = 0;
  for (const [i, from] of span.entries()) {
    const to = span.slice(i).find(({ atMs }) => atMs - from.atMs >= WINDOW_MS);
    // an entry may have expired at any time since the sweep that ended with `from` passed it
    if (to) most = Math.max(most, perSecond(from, to, span[i - 1]?.atMs));
  }
  addResult(context, 'load', name, {
    'ids a second, mean': Math.round(mean),
    'ids a second, maximum': Math.round(most),
  });
  expect(span.at(-1)!.loads).toBeGreaterThan(ENTRIES);
  expect(most / mean).toBeLessThanOrEqual(2);
}

describe(`${MANY} entries stored at once are reloaded at an even rate`, () => {
  it('from Redis', async (context) => {
    const ttlS = shortOrLong(10, 20);
    await evenly(
      context,
      `${MANY} entries expire in Redis`,
      // an entry is loaded because it has expired, not because a busy machine is late
      { env: { L1_MAX_BYTES: '0', REDIS_TTL_S: String(ttlS), REDIS_TIMEOUT_MS: '2000' } },
      1.2 * ttlS * 1_000,
      () => sleep(100),
    );
  });
});
