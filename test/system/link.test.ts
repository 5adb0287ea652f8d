import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { FreshnessWatch } from '../support/freshness-watch.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { FaultProxy } from '../support/proxy.ts';
import { shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { untilEqual } from '../support/stall-detector.ts';

await needs('redis');

/** Maximum staleness while the log cannot be followed and PostgreSQL responds, and the time of the query. */
const MAX_STALENESS_MS = 5_500;
/** Time within which a broken link is detected and reopened, and the log is followed again. */
const DETECTED_MS = 5_000;
/** The purpose of the connection that follows the log, as PostgreSQL shows it. */
const FOLLOWING = 'hotel-api follow';

/** path of the second instance to PostgreSQL */
let proxy: FaultProxy;
let first: Service;
let second: Service;
let allWorkers: AllWorkers;
let freshness: FreshnessWatch;
let n = 0;

beforeAll(async () => {
  // its processes are frozen and killed
  const { url, ownerUrl } = await ownPostgres(100);
  const sql = postgresClient(ownerUrl, { max: 2, backoff: () => 0.1 });
  const database = databaseAt(url, ownerUrl, sql);
  first = await startService({ workers: 2, database, hotels: [{ id: 'h' }] });
  proxy = await FaultProxy.before(database.url);
  const beside = { database: { ...database, url: proxy.url }, redisDatabase: first.redisDatabase! };
  second = await startService({ workers: 2, ...beside });
  allWorkers = await AllWorkers.of(first, second);
  freshness = new FreshnessWatch(first, second);
});

/** Commits a change. Returns the time until every worker returned it. */
async function changed(timeoutMs: number): Promise<number> {
  const name = `v${++n}`;
  await first.sql`update hotels set name = ${name} where id = 'h'`;
  return allWorkers.until('/hotels/h', named(name), timeoutMs);
}

/** Returns the processes of PostgreSQL by which the instances follow the log. */
async function following(): Promise<number[]> {
  const rows = await first.sql<{ pid: number }[]>`
    select pid from pg_stat_activity where application_name = ${FOLLOWING}`;
  return rows.map(({ pid }) => pid);
}

async function terminate(): Promise<void> {
  await first.sql`
    select pg_terminate_backend(pid) from pg_stat_activity where application_name = ${FOLLOWING}`;
}

async function crash(): Promise<void> {
  // the server's default here is to lose the last commits in a crash
  await first.sql`checkpoint`;
  const isUp = () =>
    first.sql`select`.then(
      () => true,
      () => false,
    );
  process.kill((await following())[0]!, 'SIGKILL');
  while (await isUp());
  await expect.poll(isUp).toBe(true);
}

/** Returns the samples of a metric from both instances. */
async function valuesOf(metric: string): Promise<number[]> {
  const samples = await Promise.all([first.samples(metric), second.samples(metric)]);
  return samples.flat().map(({ value }) => value);
}

/** Returns 1 for each worker of both instances that is current, otherwise 0. */
const current = () => valuesOf('hotel_api_log_current');

const log = (what: string, ms: number) =>
  console.log(`${what}: visible everywhere after ${Math.round(ms)} ms`);

describe('a change is served by every worker', () => {
  it('when every backend that follows the log is repeatedly terminated', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    for (let round = 0; round < 10; round++) {
      const name = `v${++n}`;
      // alternately before, during and after the change
      if (round % 3 === 0) await terminate();
      await first.sql.begin(async (sql) => {
        await sql`update hotels set name = ${name} where id = 'h'`;
        if (round % 3 === 1) await terminate();
      });
      if (round % 3 === 2) await terminate();
      log('followers terminated', await allWorkers.until('/hotels/h', named(name), 2_000));
    }
  });

  it('when an instance cannot follow the log, while its other connections work', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    proxy.blackout(FOLLOWING);
    try {
      log('no byte of the log', await changed(MAX_STALENESS_MS));
    } finally {
      await proxy.heal();
    }
    await changed(DETECTED_MS);
    await changed(1_000);
  });

  it('when every connection of an instance is half-open, and new ones are good', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    proxy.halfOpen();
    log('every connection half-open', await changed(MAX_STALENESS_MS));
    await untilEqual(DETECTED_MS, current, [1, 1, 1, 1]);
    await changed(1_000);
  });

  it.each([
    ['has a delay of 400 ms each way', () => proxy.delay(400, FOLLOWING)],
    ['has a delay of 2 s each way', () => proxy.delay(2_000, FOLLOWING)],
    ['carries 20 kB/s', () => proxy.throttle(20_000, FOLLOWING)],
    ['carries 125 kB/s', () => proxy.throttle(125_000, FOLLOWING)],
  ])('when the link by which an instance follows the log %s and is never silent', async (_, slow) => {
    freshness.allowAge(MAX_STALENESS_MS);
    const key = await insertKey(first.sql, []);
    await allWorkers.until('/hotels/h', status(200), 10_000, key);
    let isOver = false;
    let written = 0;
    const writing = (async () => {
      for (; !isOver; written++)
        await first.sql`
          insert into hotels (id, name) select 'other hotel of a long name ' || i, 'x' from generate_series(1, 4000) as i
          on conflict (id) do update set name = hotels.name`;
    })();
    slow();
    try {
      await expect.poll(() => written).toBeGreaterThan(2);
      for (let round = 0; round < 3; round++) log('a slow link', await changed(MAX_STALENESS_MS));
      await first.sql`
        update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
      log('a slow link, a key', await allWorkers.until('/hotels/h', status(401), MAX_STALENESS_MS, key));
    } finally {
      isOver = true;
      await writing;
      await proxy.heal();
    }
    await untilEqual(DETECTED_MS, current, [1, 1, 1, 1]);
    await changed(1_000);
  });

  it('when the backends that follow the log are frozen', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    const frozen = await following();
    for (const pid of frozen) process.kill(pid, 'SIGSTOP');
    try {
      log('followers frozen', await changed(DETECTED_MS));
    } finally {
      for (const pid of frozen) process.kill(pid, 'SIGCONT');
    }
    await changed(1_000);
  });

  it('when no instance can give positions to changes, though polls succeed', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    const name = `v${++n}`;
    await first.sql.begin(async (sql) => {
      await sql`lock table hotel_api_sequencer in exclusive mode`;
      await postgresClient(first.database.ownerUrl)`update hotels set name = ${name} where id = 'h'`;
      log('no sequencer', await allWorkers.until('/hotels/h', named(name), MAX_STALENESS_MS));
    });
    await changed(DETECTED_MS);
    await changed(1_000);
  });

  it('when an instance is 200 ms away from PostgreSQL, there and back', async () => {
    proxy.delay(100);
    try {
      const tookMs: number[] = [];
      for (let round = 0; round < 12; round++) tookMs.push(await changed(1_000));
      const sorted = tookMs.toSorted((a, b) => a - b);
      log('200 ms away, median', sorted[5]!);
      log('and at most', sorted[11]!);
    } finally {
      await proxy.heal();
    }
  });

  it('when an instance is cut off from PostgreSQL without notice: it serves its caches, and is right after the reconnect', async () => {
    freshness.allowAge(Number.POSITIVE_INFINITY);
    const others = await AllWorkers.of(first);
    proxy.blackout();
    const beganMs = performance.now();
    try {
      while (performance.now() - beganMs < 3_000) {
        const name = `v${++n}`;
        await first.sql`update hotels set name = ${name} where id = 'h'`;
        await others.until('/hotels/h', named(name), 2_500);
        for (const { status } of await allWorkers.get('/hotels/h')) expect(status).toBe(200);
      }
    } finally {
      await proxy.heal();
    }
    log('a blackout has ended', await changed(2_500));
    await changed(1_000);
  });

  it('when a primary process is frozen, and later continues as if nothing had happened', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    const others = await AllWorkers.of(second);
    process.kill(first.pid, 'SIGSTOP');
    try {
      const name = `v${++n}`;
      await first.sql`update hotels set name = ${name} where id = 'h'`;
      log('the other instance', await others.until('/hotels/h', named(name), 2_500));
      // the workers of the frozen one receive nothing, and serve nothing older than 5 s
      await allWorkers.until('/hotels/h', named(name), 5_500);
    } finally {
      process.kill(first.pid, 'SIGCONT');
    }
    for (let round = 0; round < shortOrLong(8, 20); round++) await changed(2_000);
  });

  it('when PostgreSQL crashes and restarts meanwhile', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    const [pid] = await following();
    const name = `v${++n}`;
    await first.sql.begin(async (sql) => {
      // as in `crash`
      await sql`set local synchronous_commit = on`;
      await sql`update hotels set name = ${name} where id = 'h'`;
    });
    process.kill(pid!, 'SIGKILL');
    const statuses = new Set<number>();
    const beganMs = performance.now();
    while (performance.now() - beganMs < 1_500)
      for (const { status } of await allWorkers.get('/hotels/h')) statuses.add(status);
    expect([...statuses]).toEqual([200]);
    await allWorkers.until('/hotels/h', named(name), 5_000);
    for (;;) {
      const back = await first.sql`select 1`.catch(() => undefined);
      if (back) break;
    }
    log('PostgreSQL restarted', await changed(5_000));
    await changed(1_000);
  });

  it.each([
    ['every backend that follows it is terminated', terminate],
    ['PostgreSQL crashes and restarts', crash],
  ])('and the log is continued where it was left if %s', async (_, befall) => {
    freshness.allowAge(MAX_STALENESS_MS);
    await changed(1_000);
    const histories = () => valuesOf('hotel_api_history_changes_total');
    const before = await histories();
    await befall();
    log('the log is continued', await changed(DETECTED_MS));
    expect(await histories()).toEqual(before);
  });

  it('when the link of a distant instance was half-open: 320 ms there and back are 160 ms with TLS', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    await changed(1_000);
    proxy.delay(160, FOLLOWING);
    proxy.halfOpen();
    try {
      await changed(MAX_STALENESS_MS);
      await untilEqual(2 * DETECTED_MS, current, [1, 1, 1, 1]);
    } finally {
      await proxy.heal();
    }
    await changed(DETECTED_MS);
  });

  it('when an instance is killed', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    const others = await AllWorkers.of(first);
    process.kill(second.pid, 'SIGKILL');
    await second.exited;
    const name = `v${++n}`;
    await first.sql`update hotels set name = ${name} where id = 'h'`;
    log('the other instance killed', await others.until('/hotels/h', named(name), 2_000));
  });
});
