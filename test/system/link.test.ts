import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { AllWorkers, named } from '../support/all-workers.ts';
import { FreshnessWatch } from '../support/freshness-watch.ts';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { databaseAt, ownPostgres } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { FaultProxy } from '../support/proxy.ts';
import { shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { untilEqual, within } from '../support/stall-detector.ts';

await needs('redis');

/** Maximum staleness with the link down while PostgreSQL responds, and the time of the query. */
const MAX_STALENESS_MS = 5_500;
/** Time within which a broken link is detected and reopened, and all caches are dropped. */
const DETECTED_MS = 5_000;
/** Time after which a silent feed counts as down, and the interval of the check. */
const SILENT_MS = 1_500;
const CHECK_MS = 500;

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

async function backends(name: string): Promise<number[]> {
  const rows = await first.sql<{ pid: number }[]>`
    select pid from pg_stat_activity where application_name = ${`hotel-api ${name}`}`;
  return rows.map(({ pid }) => pid);
}

/** Returns the instance with the active invalidator, and the other. */
async function roles(): Promise<[active: Service, standby: Service]> {
  for (;;) {
    for (const [one, other] of [
      [first, second],
      [second, first],
    ] as const) {
      if (/^hotel_api_invalidator_active 1$/m.test(await one.metrics())) return [one, other];
    }
    await sleep(50);
  }
}

/** Makes this instance's invalidator the active one. */
async function haveLead(service: Service): Promise<void> {
  freshness.allowAge(2_500);
  while ((await roles())[0] !== service) {
    await first.sql`
      select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
      where locktype = 'advisory' and granted and application_name = 'hotel-api invalidate'`;
    await sleep(600);
  }
}

/** Returns the samples of a metric from both instances. */
async function valuesOf(metric: string): Promise<number[]> {
  const samples = await Promise.all([first.samples(metric), second.samples(metric)]);
  return samples.flat().map(({ value }) => value);
}

/** Returns 1 for each worker of both instances that receives the feed, otherwise 0. */
const feeds = () => valuesOf('hotel_api_change_feed_up');

/** Returns the number of times that the workers of each instance have marked their caches stale. */
const feedResets = () => valuesOf('hotel_api_feed_resets_total');

/** Returns the number of times that each instance has confirmed that it missed nothing. */
function timesResumed(): number[] {
  return [first, second].map(
    (service) => service.logs().filter((line) => line.includes('"event":"resumed"')).length,
  );
}

async function terminate(...purposes: string[]): Promise<void> {
  const names = purposes.map((purpose) => `hotel-api ${purpose}`);
  await first.sql`
    select pg_terminate_backend(pid) from pg_stat_activity where application_name = any (${names})`;
}

async function crash(): Promise<void> {
  const [pid] = await backends('invalidate');
  // the server's default here is to lose the last commits in a crash
  await first.sql`checkpoint`;
  process.kill(pid!, 'SIGKILL');
}

const log = (what: string, ms: number) =>
  console.log(`${what}: visible everywhere after ${Math.round(ms)} ms`);

describe('a change is served by every worker', () => {
  it('when every listening backend is repeatedly terminated', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    for (let round = 0; round < 10; round++) {
      const name = `v${++n}`;
      // alternately before, during and after the change
      if (round % 3 === 0) await terminate('listen');
      await first.sql.begin(async (sql) => {
        await sql`update hotels set name = ${name} where id = 'h'`;
        if (round % 3 === 1) await terminate('listen');
      });
      if (round % 3 === 2) await terminate('listen');
      log('listeners terminated', await allWorkers.until('/hotels/h', named(name), 2_000));
    }
  });

  it('when the feed of an instance is half-open, while its other connections work', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    await haveLead(first);
    proxy.blackout('hotel-api listen');
    try {
      log('a half-open feed', await changed(MAX_STALENESS_MS));
    } finally {
      await proxy.heal();
    }
    await changed(DETECTED_MS);
    await changed(1_000);
  });

  it('when every connection of the active instance is half-open, and new ones are good', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    await haveLead(second);
    const both = () => backends('invalidate');
    const before = await within(DETECTED_MS, both, (pids) => expect(pids).toHaveLength(2));
    proxy.halfOpen();
    log('every connection half-open', await changed(MAX_STALENESS_MS));
    await untilEqual(DETECTED_MS, feeds, [1, 1, 1, 1]);
    // it has detected the end of its session, and takes part in the election again
    await within(
      DETECTED_MS,
      () => backends('invalidate'),
      (now) => {
        expect(now).toHaveLength(2);
        expect(now.filter((pid) => !before.includes(pid))).toHaveLength(1);
      },
    );
    await changed(1_000);
  });

  it('when the feed of an instance is slow', async () => {
    await haveLead(first);
    proxy.delay(400, 'hotel-api listen');
    try {
      for (let round = 0; round < 5; round++) log('a slow feed', await changed(1_000));
    } finally {
      await proxy.heal();
    }
  });

  it('when the backend of the active invalidator is terminated', async () => {
    freshness.allowAge(2_500);
    for (let round = 0; round < 10; round++) {
      await terminate('invalidate');
      log('invalidators terminated', await changed(2_000));
    }
  });

  it('when the listening backends are frozen: the link is half-open and silent', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    // the log keeps it: the feed is down only until the connection is replaced
    const timesSilent = () =>
      [first, second].map(
        (service) => linesOf(service.logs(), 'change feed').filter(({ event }) => event === 'silent').length,
      );
    const before = timesSilent();
    const frozen = await backends('listen');
    for (const pid of frozen) process.kill(pid, 'SIGSTOP');
    try {
      const [tookMs] = await Promise.all([
        changed(DETECTED_MS),
        within(SILENT_MS + CHECK_MS, timesSilent, (times) =>
          expect(times.map((count, i) => count > before[i]!)).toEqual([true, true]),
        ),
      ]);
      log('listeners frozen', tookMs);
    } finally {
      for (const pid of frozen) process.kill(pid, 'SIGCONT');
    }
    await changed(1_000);
  });

  it.each([
    ['the active', () => second],
    ['the other', () => first],
  ])('when %s instance is 200 ms away from PostgreSQL, there and back', async (_, leader) => {
    await haveLead(leader());
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

  it.each([
    ['the active', () => second],
    ['the other', () => first],
  ])(
    'when %s instance is cut off from PostgreSQL without notice: it serves its caches, and is right after the reconnect',
    async (_, leader) => {
      freshness.allowAge(Number.POSITIVE_INFINITY);
      await haveLead(leader());
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
    },
  );

  it('when the instance of the active invalidator is frozen, and later continues as if it were still active', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    const [active, standby] = await roles();
    const others = await AllWorkers.of(standby);
    process.kill(active.pid, 'SIGSTOP');
    try {
      const name = `v${++n}`;
      await first.sql`update hotels set name = ${name} where id = 'h'`;
      log('the active primary frozen', await others.until('/hotels/h', named(name), 2_500));
      // the workers of the frozen one receive nothing, and serve nothing older than 5 s
      await allWorkers.until('/hotels/h', named(name), 5_500);
    } finally {
      process.kill(active.pid, 'SIGCONT');
    }
    for (let round = 0; round < shortOrLong(8, 20); round++) await changed(2_000);
    await expect.poll(async () => (await roles())[0].port).toBe(standby.port);
  });

  it('when PostgreSQL crashes and restarts meanwhile', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    const [pid] = await backends('invalidate');
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
    ['every backend that listens is terminated', () => terminate('listen')],
    ['every backend that listens, and every invalidator, is', () => terminate('listen', 'invalidate')],
    ['PostgreSQL crashes and restarts', crash],
  ])('and no cache is marked stale if %s and nothing was announced meanwhile', async (_, befall) => {
    freshness.allowAge(MAX_STALENESS_MS);
    await changed(1_000);
    const [resets, resumed] = [await feedResets(), timesResumed()];
    await befall();
    // more than once if the machine holds an instance up for longer than a silence
    await within(DETECTED_MS, timesResumed, (times) =>
      expect(times.map((count, i) => count > resumed[i]!)).toEqual([true, true]),
    );
    log('the feed resumed', await changed(1_000));
    expect(await feedResets()).toEqual(resets);
  });

  it('when the feed of a distant instance was half-open: 320 ms for its four round trips are 160 ms for eight with TLS', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    await haveLead(first);
    await changed(1_000);
    const timesConnected = () => second.logs().filter((line) => line.includes('"event":"connected"')).length;
    const before = timesConnected();
    proxy.delay(160, 'hotel-api listen');
    proxy.halfOpen();
    try {
      await untilEqual(2 * DETECTED_MS, timesConnected, before + 1);
    } finally {
      await proxy.heal();
    }
    await changed(DETECTED_MS);
  });

  it('when the instance of the active invalidator is killed', async () => {
    freshness.allowAge(MAX_STALENESS_MS);
    const [active, standby] = await roles();
    const others = await AllWorkers.of(standby);
    process.kill(active.pid, 'SIGKILL');
    const name = `v${++n}`;
    await first.sql`update hotels set name = ${name} where id = 'h'`;
    log('the active instance killed', await others.until('/hotels/h', named(name), 2_000));
  });
});
