import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Sql } from 'postgres';
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { insertKey } from '../support/key.ts';
import { untilApplied } from '../support/log-state.ts';
import type { FaultProxy } from '../support/proxy.ts';
import { type Service, startBehindProxy } from '../support/service.ts';
import { untilEqual, within } from '../support/stall-detector.ts';
import { untilStopped } from '../support/stopped.ts';

const PATH = '/hotels/h';
const TIMEOUT_MS = 8_000;
/** Longer than a query may take; and shorter, but longer than a cached value is used while the worker is not current. */
const [TOO_LATE_S, LATE_S] = [30, 4];

const HOOK = fileURLToPath(new URL('../support/stop-hook.ts', import.meta.url));
const HOTELS = ['hotels', 'where id = any('] as const;
const KEYS = ['api_keys', 'where key_sha256 = decode('] as const;

let proxy: FaultProxy;
let service: Service;

beforeAll(async () => {
  ({ service, proxy } = await startBehindProxy({
    hotels: [{ id: 'h' }, { id: 'deleted' }, { id: 'missed' }, { id: 'waiting' }, { id: 'receiving' }],
    env: { DATABASE_TIMEOUT_MS: String(TIMEOUT_MS), NODE_OPTIONS: `--import=${HOOK}` },
  }));
});

beforeEach(async () => {
  await currentIs(1);
  await untilEqual(5_000, isBreakerOpen, 0);
  expect(await status()).toBe(200);
});

afterEach(() => proxy.heal());

const status = async () => (await service.get(PATH)).status;

/** Returns 1 while the circuit breaker of PostgreSQL is open, else 0. */
const isBreakerOpen = () => service.metric('hotel_api_breaker_open', { dependency: 'postgres' });

/** Waits until the worker is current (1), or is not (0). */
const currentIs = (expected: 0 | 1) =>
  untilEqual(5_000, () => service.metric('hotel_api_log_current'), expected);

/** Delays the queries of workers that contain this text, until the test has finished; others of the table are answered. */
async function delay(sql: Sql, [table, text]: readonly [string, string], seconds: number): Promise<void> {
  await sql.unsafe(`
    create policy late on ${table} using (
      case when current_setting('application_name') = 'hotel-api serve' and strpos(current_query(), '${text}') > 0
      then pg_sleep(${seconds}) is not null else true end);
    alter table ${table} enable row level security`);
  onTestFinished(async () => {
    await sql`select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'`;
    await sql.unsafe(`alter table ${table} disable row level security; drop policy late on ${table}`);
  });
}

/** Has the service cache a hotel and a new key, deletes the hotel, revokes the key and returns it. */
async function deleteAndRevoke(id: string): Promise<string> {
  const key = await insertKey(service.sql, []);
  expect((await service.get(`/hotels/${id}`, { key })).status).toBe(200);
  await service.sql`delete from hotels where id = ${id}`;
  await service.sql`update api_keys set revoked_at = now() where key_sha256 = decode(${hashOf(key)}, 'hex')`;
  return key;
}

/** Lets the service read from PostgreSQL for this time. */
async function readFor(ms: number): Promise<void> {
  const untilMs = performance.now() + ms;
  while (performance.now() < untilMs) {
    expect((await service.get(PATH)).status).toBe(200);
    await sleep(50);
  }
}

describe('while the log cannot be followed', () => {
  beforeEach(() => proxy.blackout('hotel-api follow'));

  it.each([
    ['hotels', HOTELS],
    ['keys', KEYS],
  ])('and queries for %s are too late, but others are answered, the response is 503', async (_, queries) => {
    await delay(service.sql, queries, TOO_LATE_S);
    await untilEqual(10_000, status, 503);
    expect(await status()).toBe(503);
    expect(await isBreakerOpen()).toBe(0);
  });

  it('the age of a hotel counts from the beginning of its query', async () => {
    await delay(service.sql, HOTELS, LATE_S);
    const secondsOf = async () => {
      const sentAtMs = performance.now();
      expect(await status()).toBe(200);
      return (performance.now() - sentAtMs) / 1_000;
    };
    await within(10_000, secondsOf, (seconds) => expect(seconds).toBeGreaterThanOrEqual(LATE_S));
    expect(await secondsOf()).toBeGreaterThanOrEqual(LATE_S);
  });

  it('a hotel or key that may have changed is not served when PostgreSQL becomes unavailable later', async () => {
    const revoked = await deleteAndRevoke('deleted');
    await readFor(6_000);
    await proxy.reject();
    expect((await service.get('/hotels/deleted')).status).toBe(503);
    expect((await service.get(PATH, { key: revoked })).status).toBe(503);
  });

  it('nor by a worker that starts in the outage', async () => {
    await readFor(6_000);
    await proxy.reject();
    const [ended] = await service.workerPids();
    process.kill(ended!, 'SIGKILL');
    await within(
      10_000,
      () => service.workerPids(),
      (pids) => expect([pids.length, pids[0] === ended]).toEqual([1, false]),
    );
    // Redis holds the hotel and the key
    await untilEqual(10_000, () => status().catch(() => 0), 503);
  });
});

it('after changes could not be followed, no earlier copy is served when PostgreSQL becomes unavailable', async () => {
  proxy.blackout('hotel-api follow');
  const revoked = await deleteAndRevoke('missed');
  await readFor(5_000);
  await proxy.heal();
  await currentIs(1);
  await untilApplied(service);
  await proxy.reject();
  await currentIs(0);
  // 404: Redis has the absence already
  expect([404, 503]).toContain((await service.get('/hotels/missed')).status);
  expect((await service.get(PATH, { key: revoked })).status).toBe(503);
});

describe('what changed while the service was stopped is not served if PostgreSQL is unavailable afterwards', () => {
  it.each([
    ['as it waited', 'waiting', -1, 'SIGSTOP'],
    ['between a poll of the log and its application', 'receiving', 1, 'SIGUSR2'],
  ] as const)('%s', async (_, id, processes, signal) => {
    const key = await insertKey(service.sql, []);
    expect((await service.get(`/hotels/${id}`, { key })).status).toBe(200);
    process.kill(processes * service.pid, signal);
    onTestFinished(() => void process.kill(-service.pid, 'SIGCONT'));
    for (const pid of [service.pid, ...(await service.workerPids())]) await untilStopped(pid);
    await proxy.reject();
    await service.sql`delete from hotels where id = ${id}`;
    await sleep(6_000);
    process.kill(-service.pid, 'SIGCONT');
    await currentIs(0);
    expect((await service.get(`/hotels/${id}`, { key })).status).toBe(503);
  });
});
