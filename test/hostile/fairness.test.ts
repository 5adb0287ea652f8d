import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { percentile } from '../../bench/figures.ts';
import type { HttpResponse } from '../support/client.ts';
import { freshDatabase } from '../support/database.ts';
import { holdUps, waitedMsOf } from '../support/hold-ups.ts';
import { insertHotels } from '../support/hotel.ts';
import { insertKey } from '../support/key.ts';
import { addResult, checksTimes, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { LoadThread } from './load-thread.ts';
import type { MissOptions } from './misses-thread.ts';

const BATCH = '/hotels/channel/batch';
const CACHED = 1_000;
const UNCACHED = shortOrLong(600, 4_000);
/** Concurrent batches of a flooding key. */
const FLOODING = 16;
const SECONDS = shortOrLong(3, 20);

let service: Service;
let cached: Buffer;
let others: string[];

beforeAll(async () => {
  const channels = Array.from({ length: CACHED }, (_, i) => `CH-${i}`);
  service = await startService({
    hotels: [
      ...channels.map((channel_id, i) => ({ id: `h${i}`, channel_id })),
      ...Array.from({ length: UNCACHED }, (_, i) => ({ id: `u${i}` })),
    ],
  });
  cached = Buffer.from(JSON.stringify({ channel_ids: channels }));
  others = [
    await insertKey(service.sql, []),
    await insertKey(service.sql, []),
    await insertKey(service.sql, []),
  ];
  expect((await service.post(BATCH, cached, { key: others[0]! })).json()).toHaveLength(CACHED);
});

/** Starts clients of keys that request unknown ids until they are stopped; returns responses by status, of each key. */
async function flood(...keys: string[]): Promise<() => Promise<Record<string, number>[]>> {
  const threads = keys.map((key) => {
    const options: MissOptions = { port: service.port, key, clients: FLOODING };
    return new LoadThread<Record<string, number>>('./misses-thread.ts', options);
  });
  await Promise.all(threads.map(({ ready }) => ready));
  for (const thread of threads) thread.start();
  return () => Promise.all(threads.map((thread) => thread.stop()));
}

let uncached = 0;

/** Repeatedly requests a cached batch and, while there are some, an uncached hotel; returns responses by status and their times. */
async function send(ms: number): Promise<{ statuses: Record<string, number>; p99Ms: number }> {
  const statuses: Record<string, number> = {};
  const times: number[] = [];
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs) {
    const beganMs = performance.now();
    const answers = await Promise.all([
      service.post(BATCH, cached, { key: others[0]! }),
      ...(uncached < UNCACHED ? [service.get(`/hotels/u${uncached++}`, { key: others[0]! })] : []),
    ]);
    times.push(performance.now() - beganMs);
    for (const { status } of answers) statuses[status] = (statuses[status] ?? 0) + 1;
  }
  return { statuses, p99Ms: percentile(times, 0.99) };
}

it('a flood of batches of unknown ids causes no rejection for another key', async (context) => {
  const quiet = await send(shortOrLong(300, 3_000));
  const stop = await flood(others[1]!);
  await sleep(500);
  const [worker] = await service.workerPids();
  const heldUp = async () => ({ times: await holdUps(service, 0.5), waitedMs: await waitedMsOf(worker!) });
  const before = await heldUp();
  const meanwhile = await send(SECONDS * 1_000);
  const after = await heldUp();
  const [flooded] = await stop();
  const { 200: answered = 0, ...failed } = meanwhile.statuses;
  addResult(context, 'hostile clients', `${FLOODING} batches of 1000 unknown ids at once, of one key`, {
    "others' failures": Object.values(failed).reduce((sum, count) => sum + count, 0),
    "others' p99 ms": `${quiet.p99Ms.toFixed(1)} → ${meanwhile.p99Ms.toFixed(1)}`,
    'workers exited': await service.metric('hotel_api_worker_restarts_total'),
    'its own responses': JSON.stringify(flooded),
  });
  // a worker that got no core for half a second rejects what has waited for too long
  const isExcused = after.times > before.times && after.waitedMs - before.waitedMs > 500;
  if (checksTimes || !isExcused) expect(failed).toEqual({});
  expect(answered).toBeGreaterThan(0);
  expect(flooded![200]).toBeGreaterThan(0);
  if (checksTimes) expect(meanwhile.p99Ms).toBeLessThan(quiet.p99Ms + 100);
});

it('two equally flooding keys are served equally', async (context) => {
  const stop = await flood(others[1]!, others[2]!);
  await sleep(SECONDS * 1_000);
  const [a, b] = await stop();
  const share = a![200]! / (a![200]! + b![200]!);
  addResult(
    context,
    'hostile clients',
    `${FLOODING} batches of 1000 unknown ids at once, of each of two keys`,
    {
      'share of the first': share.toFixed(2),
    },
  );
  // on a busy machine few batches are served
  const tolerance = shortOrLong(0.3, 0.15);
  expect(Math.abs(share - 0.5)).toBeLessThan(tolerance);
});

it('a key that fills the queue for PostgreSQL causes no rejection for another', async () => {
  const database = await freshDatabase();
  await insertHotels(database.sql, [{ id: 'u0' }]);
  const [flooding, other] = [await insertKey(database.sql, []), await insertKey(database.sql, [])];
  const small = await startService({
    database,
    env: { DATABASE_POOL_SIZE: '1', DATABASE_QUEUE_LIMIT: '4', DATABASE_TIMEOUT_MS: '10000' },
  });
  // the keys are cached from now on
  for (const key of [flooding, other]) expect((await small.get('/hotels/u0', { key })).status).toBe(200);
  const rejected = () => small.metric('hotel_api_requests_rejected_total', { reason: 'postgres_queue' });
  let batches: Promise<HttpResponse>[] = [];
  let single: Promise<HttpResponse> | undefined;
  await small.sql.begin(async (sql) => {
    await sql`lock table hotels in access exclusive mode`;
    batches = Array.from({ length: 12 }, (_, i) => {
      const ids = Array.from({ length: 200 }, (_, j) => `nobody-${i}-${j}`);
      return small.post(BATCH, { channel_ids: ids }, { key: flooding });
    });
    // one query runs, and four may wait
    await expect.poll(rejected).toBe(12 - 5);
    const waiting = () => small.metric('hotel_api_postgres_queries_waiting');
    // a query of the background may wait too
    const queued = await waiting();
    expect(queued).toBeGreaterThanOrEqual(4);
    single = small.get('/hotels/nobody', { key: other });
    await expect.poll(waiting).toBeGreaterThan(queued);
  });
  expect((await single!).status).toBe(404);
  const statuses = (await Promise.all(batches)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 200)).toHaveLength(5);
  expect(await rejected()).toBe(12 - 5);
});
