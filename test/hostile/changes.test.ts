import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it, type TestContext } from 'vitest';
import { readToken, type Token, writeToken } from '../../src/changes/token.ts';
import { insertKey } from '../support/key.ts';
import { addResult, checksTimes, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { Bystander } from './bystander.ts';
import { residentMiB, workersOf } from './memory.ts';
import { startRequests } from './requests.ts';

const WORKERS = 2;
const HOTELS = shortOrLong(3_000, 20_000);
const DESCRIPTION = 'A hotel near the sea. '.repeat(30);
/** Connections of the hostile clients. */
const WALKS = shortOrLong(8, 32);
const WAITS = shortOrLong(200, 1_000);
const WATCHED_MS = shortOrLong(2_000, 15_000);

let service: Service;
let pids: number[];
let key: string;
/** ids that are in the caches from now on */
let cached: string[];

beforeAll(async () => {
  service = await startService({ workers: WORKERS });
  await service.sql`
    insert into hotels (id, name, description)
    select 'h' || lpad(n::text, 6, '0'), 'Hotel ' || n, ${DESCRIPTION} from generate_series(1, ${HOTELS}) as n`;
  await service.sql`insert into hotels (id, name) select 'u' || n, 'Uncached ' || n from generate_series(0, 9999) as n`;
  pids = await workersOf(service, WORKERS);
  key = await insertKey(service.sql, []);
  cached = ['h000001', 'h000002', 'h000003'];
  await new Bystander(service, cached).watch(500);
});

async function upToDate(): Promise<Token> {
  let after = '';
  for (;;) {
    const { next, more } = (await service.get(`/changes?limit=1000${after}`, { key })).json();
    after = `&after=${next}`;
    if (!more) return readToken(next)!;
  }
}

let requested = 0;
/** Ids that were never requested. */
function uncached(ms: number): string[] {
  const ids = Array.from({ length: ms / 10 + 20 }, (_, i) => `u${requested + i}`);
  requested += ids.length;
  return ids;
}

/** Watches clients of cached and of uncached hotels before and during an attack, and writes the row of the table. */
async function underAttack(
  context: TestContext,
  what: string,
  attack: () => Promise<() => Promise<Record<string, string | number>>>,
): Promise<void> {
  const quietMs = shortOrLong(200, 5_000);
  const quietHit = await new Bystander(service, cached).watch(quietMs);
  const quietMiss = await new Bystander(service, uncached(quietMs)).watch(quietMs);
  const beforeMiB = await residentMiB(pids);
  const stop = await attack();
  await sleep(500);
  const watching = [
    new Bystander(service, cached).watch(WATCHED_MS),
    new Bystander(service, uncached(WATCHED_MS)).watch(WATCHED_MS),
  ];
  const [hit, miss] = await Promise.all(watching);
  const own = await stop();
  const afterMiB = await residentMiB(pids);
  addResult(context, 'hostile clients', what, {
    "others' failures": hit!.wrong.length + miss!.wrong.length,
    "others' p99 ms": `${quietHit.p99Ms.toFixed(1)} → ${hit!.p99Ms.toFixed(1)}`,
    'uncached p99 ms': `${quietMiss.p99Ms.toFixed(1)} → ${miss!.p99Ms.toFixed(1)}`,
    'max ms': `${hit!.maxMs.toFixed(0)}, ${miss!.maxMs.toFixed(0)}`,
    'memory + MiB': Math.round(afterMiB - beforeMiB),
    'workers exited': await service.metric('hotel_api_worker_restarts_total'),
    ...own,
  });
  expect([...hit!.wrong, ...miss!.wrong]).toEqual([]);
  expect((await service.workerPids()).sort()).toEqual(pids);
  if (checksTimes) {
    expect(hit!.p99Ms).toBeLessThan(quietHit.p99Ms + 100);
    expect(miss!.p99Ms).toBeLessThan(quietMiss.p99Ms + 100);
  }
}

it('walks of one key through all hotels, 1000 a page, cause no rejection for others', (context) =>
  underAttack(context, `${WALKS} walks by GET /changes, 1000 hotels a page, of one key`, async () => {
    const whole = await upToDate();
    const paths = Array.from({ length: 500 }, () => {
      const walkedTo = `h${String(Math.floor(Math.random() * HOTELS)).padStart(6, '0')}`;
      const token = writeToken({ ...whole, walkedTo, isWhole: false });
      return `/changes?limit=1000&after=${token}`;
    });
    const stop = await startRequests({ port: service.port, key, clients: WALKS, paths });
    return async () => {
      const { statuses, bytes } = await stop();
      return { 'its own responses': JSON.stringify(statuses), MB: Math.round(bytes / 1e6) };
    };
  }));

it('clients that wait for the same page are answered when 1000 hotels change, and others meanwhile', (context) =>
  underAttack(context, `${WAITS} waits by GET /changes while 1000 hotels change`, async () => {
    const token = writeToken(await upToDate());
    const paths = [`/changes?limit=1000&wait=30&after=${token}`];
    const stop = await startRequests({ port: service.port, key, clients: WAITS, paths, isOnce: true });
    await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(WAITS);
    setTimeout(
      () =>
        service.sql`update hotels set room_count = 1 where id between 'h001000' and 'h001999'`.then(() => {}),
      1_000,
    );
    return async () => {
      const { statuses, bytes, failed } = await stop();
      expect([statuses, failed]).toEqual([{ 200: WAITS }, 0]);
      return { 'its own responses': JSON.stringify({ ...statuses, failed }), MB: Math.round(bytes / 1e6) };
    };
  }));

it('clients that wait for different pages do not delay others while hotels change ten times a second', (context) =>
  underAttack(context, `${WAITS} waits for as many pages by GET /changes, ten changes a second`, async () => {
    const token = await upToDate();
    // a different limit is a different page
    const paths = Array.from(
      { length: WAITS },
      (_, i) => `/changes?limit=${i + 1}&wait=30&after=${writeToken(token)}`,
    );
    const stop = await startRequests({ port: service.port, key, clients: WAITS, paths, follows: true });
    let n = 0;
    const timer = setInterval(
      () => void service.sql`update hotels set room_count = ${++n} where id = 'h002000'`.then(() => {}),
      100,
    );
    return async () => {
      const stopped = stop();
      await sleep(2_000);
      clearInterval(timer);
      await service.sql`update hotels set room_count = 0 where id = 'h002000'`;
      const { statuses, bytes, failed } = await stopped;
      return {
        'its own responses': JSON.stringify({ ...statuses, failed }),
        MB: Math.round(bytes / 1e6),
      };
    };
  }));

it('waits that disconnect leave nothing behind', (context) =>
  underAttack(context, '200 clients that wait by GET /changes and disconnect', async () => {
    const paths = [`/changes?limit=1000&wait=30&after=${writeToken(await upToDate())}`];
    const stop = await startRequests({ port: service.port, key, clients: 200, paths, abortsWithinMs: 50 });
    return async () => {
      const { statuses, aborted, failed } = await stop();
      await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(0);
      return { 'its own responses': JSON.stringify({ ...statuses, failed, aborted }) };
    };
  }));
