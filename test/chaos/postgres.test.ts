import postgres, { type Sql } from 'postgres';
import { beforeAll, describe, expect, it, type TestContext } from 'vitest';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { decision, type FaultResult, survive } from './fault-result.ts';
import { afterDetection, type Fault, type FaultScenario } from './fault-scenario.ts';
import { outagesOf } from './outages.ts';
import { countOutcomes, failures } from './outcome-counts.ts';
import { Fixture } from './service-fixture.ts';

await needs('redis-server');

const MAX_CONNECTIONS = 50;
const WORKERS = 2;

let fixture: Fixture;

beforeAll(async () => {
  // without a local cache Redis is the only cache; both-down.test.ts tests the local cache. The timeout of Redis is long,
  // so that a busy machine does not open its circuit breaker.
  const env = { L1_MAX_BYTES: '0', REDIS_TIMEOUT_MS: '2000' };
  fixture = await Fixture.open({ env, workers: WORKERS, maxConnections: MAX_CONNECTIONS });
});

type Check = (scenario: FaultScenario) => FaultResult;

/**
 * Checks that cached hotels are served, also for faults after which new connections work at once. After the repair PostgreSQL
 * may be available before the log is followed. Until then every request is read from PostgreSQL, and a machine that is
 * shared with other tests may not do that in time.
 */
function cachedServed(scenario: FaultScenario): FaultResult {
  const { during, beforeRepair, all, firstColdMs, normalMs } = scenario;
  const whole = countOutcomes(all);
  const cached = countOutcomes(all, ['single', 'batch']);
  const { unavailable } = countOutcomes(beforeRepair, ['single', 'batch']);
  const { p50Ms } = countOutcomes(during, ['single', 'batch']);
  const { p99Ms } = countOutcomes(afterDetection(scenario), ['single', 'batch']);
  return decision({
    answers: [[failures(whole) === 0, `${failures(whole)} requests failed`]],
    errorReplies: [[unavailable === 0, `${unavailable} requests for cached hotels were rejected`]],
    times: [
      [cached.unavailable === 0, `${cached.unavailable} were rejected, those after the repair included`],
      // hotels that may have changed are loaded until the circuit breaker of PostgreSQL opens
      [p50Ms <= 50, `the median for cached hotels in the fault was ${p50Ms} ms`],
      [p99Ms <= 200, `p99 of cached hotels was ${p99Ms} ms after the circuit breaker had opened`],
      [whole.maxMs <= 800, `a response took ${whole.maxMs} ms`],
      [firstColdMs <= 2_000, `the first cold response came after ${firstColdMs} ms`],
      [normalMs <= 2_000, `the service was normal after ${normalMs} ms`],
    ],
  });
}

/** Checks the promises during an outage of PostgreSQL: cached hotels are served, other requests rejected. */
function cachedOrRejected(scenario: FaultScenario): FaultResult {
  const { failed, rejected, slow } = cachedServed(scenario);
  const { unavailable } = countOutcomes(afterDetection(scenario), ['cold', 'unknown']);
  // otherwise the fault had no effect
  const effect = decision({ answers: [[unavailable > 0, 'no request for other hotels was rejected']] });
  return { failed: [...failed, ...effect.failed], rejected, slow };
}

/** Checks the same for faults during which PostgreSQL is available before the log is followed. */
function orLate(check: Check): Check {
  return (scenario) => {
    const { failed, rejected, slow } = check(scenario);
    return { failed, rejected: [], slow: [...rejected, ...slow] };
  };
}

/** Checks the promises while PostgreSQL is reachable. */
function expectUnaffected(scenario: FaultScenario): FaultResult {
  const { unavailable } = countOutcomes(scenario.all);
  const { rejected } = decision({
    errorReplies: [[unavailable === 0, `${unavailable} requests were rejected`]],
  });
  return { ...cachedServed(scenario), rejected };
}

const postgresIs = async (
  context: TestContext,
  fault: Omit<Fault, 'dependency'>,
  check: Check = cachedOrRejected,
): Promise<void> => {
  const prepare = async () => {
    await expect.poll(() => fixture.service.metric('hotel_api_log_current')).toBe(WORKERS);
    await fixture.inRedis();
  };
  return survive(context, fixture, { ...fault, prepare, dependency: 'postgres' }, check);
};

/** Ends all connections of the service; returns a row for each. */
const terminateAll = (sql: Sql) => sql`
  select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'hotel-api %'`;

describe('cached hotels are served, and other requests rejected at once, while PostgreSQL', () => {
  it.for([
    ['is frozen', 'PostgreSQL frozen', 5_000, 'frozen'],
    ['is killed and restarted', 'PostgreSQL killed, restarted', 10_000, 'killed'],
    [
      'has lost the far end of every connection',
      'PostgreSQL half-open: every connection dead, new ones good',
      5_000,
      'halfOpen',
    ],
    [
      'is unreachable: connections stay open and no byte passes',
      'PostgreSQL half-open: black hole',
      5_000,
      'blackHole',
    ],
    [
      'is lost behind a proxy that accepts connections and ends them',
      'PostgreSQL behind a proxy: every connection accepted and ended',
      5_000,
      'ending',
    ],
  ] as const)('%s', ([, name, longMs, outage], context) => {
    const fault = { name, shortMs: 2_000, longMs, ...outagesOf(fixture.postgres)[outage] };
    return postgresIs(context, fault, outage === 'halfOpen' ? orLate(cachedServed) : cachedOrRejected);
  });

  it('has its backends terminated every second', (context) => {
    let terminating: NodeJS.Timeout;
    return postgresIs(
      context,
      {
        name: 'PostgreSQL: backends terminated every second',
        shortMs: 2_200,
        longMs: 10_000,
        begin: async () => {
          terminating = setInterval(() => terminateAll(fixture.postgres.sql), 1_000);
          await terminateAll(fixture.postgres.sql);
        },
        end: () => clearInterval(terminating),
      },
      orLate(cachedServed),
    );
  });

  it('has no free connection', (context) => {
    const clients: Sql[] = [];
    const takesOne = (): Promise<boolean> => {
      const client = postgres(fixture.postgres.url, { max: 1, onnotice: () => {}, fetch_types: false });
      clients.push(client);
      return client`select 1`.then(
        () => true,
        () => false,
      );
    };
    return postgresIs(
      context,
      {
        name: 'PostgreSQL: max_connections exhausted',
        shortMs: 2_000,
        longMs: 5_000,
        begin: async () => {
          // sequentially, because concurrent attempts would take the processors as well
          do {
            while (await takesOne());
          } while ((await terminateAll(fixture.postgres.sql)).length > 0);
        },
        end: () => Promise.all(clients.map((client) => client.end({ timeout: 0 }))),
      },
      orLate(cachedOrRejected),
    );
  });

  it('has the table locked by an ALTER TABLE', (context) => {
    const owner = postgresAsOwner();
    return postgresIs(context, {
      name: 'PostgreSQL: ALTER TABLE hotels, not yet committed',
      shortMs: 2_000,
      longMs: 5_000,
      begin: () => owner.unsafe('begin; alter table hotels add column whatever text').simple(),
      end: () => owner.unsafe('rollback').simple(),
    }).finally(() => owner.end());
  });
});

describe('no request fails while PostgreSQL', () => {
  it('has a locked row', (context) => {
    const owner = postgresAsOwner();
    return postgresIs(
      context,
      {
        name: 'PostgreSQL: 100 rows locked by an UPDATE, not yet committed',
        shortMs: 2_000,
        longMs: 5_000,
        begin: () =>
          owner.unsafe("begin; update hotels set name = 'never seen' where id like 'chaos-1__'").simple(),
        end: () => owner.unsafe('rollback').simple(),
      },
      expectUnaffected,
    ).finally(() => owner.end());
  });
});

it('the log says once that it cannot be followed, and once that it is followed again', async () => {
  const events = () =>
    linesOf(fixture.service.logs())
      .filter(({ msg }) => msg === 'log followed' || msg === 'log cannot be followed')
      .map(({ msg }) => msg);
  const before = events().length;
  fixture.postgres.proxy.blackout('hotel-api follow');
  await expect.poll(() => events().length).toBe(before + 1);
  await fixture.postgres.proxy.heal();
  await expect.poll(() => events().length).toBe(before + 2);
  expect(events().filter((event, i, all) => event === all[i - 1])).toEqual([]);
});

/** Opens a separate connection for a transaction that stays open. */
const postgresAsOwner = (): Sql =>
  postgres(fixture.service.database.ownerUrl, { max: 1, onnotice: () => {}, backoff: () => 0.05 });
