import postgres, { type Sql } from 'postgres';
import { beforeAll, describe, it, type TestContext } from 'vitest';
import { needs } from '../support/needs.ts';
import { decision, type FaultResult, survive } from './fault-result.ts';
import { type Fault, type FaultScenario, foundOut } from './fault-scenario.ts';
import { Fixture } from './service-fixture.ts';
import { counter, failures } from './tally.ts';

await needs('redis-server');

const MAX_CONNECTIONS = 50;

let fixture: Fixture;

beforeAll(async () => {
  // without a local cache what is cached is cached in Redis; both-away.test.ts is about what workers hold
  // and Redis is not to be called away where the machine is busy: here it is all there is
  const env = { L1_MAX_BYTES: '0', REDIS_TIMEOUT_MS: '400' };
  fixture = await Fixture.open({ env, maxConnections: MAX_CONNECTIONS });
});

/** What is promised while PostgreSQL is away: who asks for what is cached does not notice, others are refused. */
function refusedOrUnnoticed(scenario: FaultScenario): FaultResult {
  const { during, all, firstColdMs, normalMs } = scenario;
  const whole = counter(all);
  const cached = counter(all, ['single', 'batch']);
  const { p50Ms } = counter(during, ['single', 'batch']);
  const { p99Ms } = counter(foundOut(scenario), ['single', 'batch']);
  return decision({
    answers: [[failures(whole) === 0, `${failures(whole)} requests failed`]],
    errorReplies: [
      [cached.unavailable === 0, `${cached.unavailable} requests for cached hotels were refused`],
    ],
    times: [
      // what may have changed is asked for until PostgreSQL is known to be away
      [p50Ms <= 50, `the median for cached hotels in the fault was ${p50Ms} ms`],
      [p99Ms <= 200, `p99 of cached hotels was ${p99Ms} ms when PostgreSQL was known to be away`],
      [whole.maxMs <= 800, `an answer took ${whole.maxMs} ms`],
      [firstColdMs <= 2_000, `the first cold answer came after ${firstColdMs} ms`],
      [normalMs <= 2_000, `all was normal after ${normalMs} ms`],
    ],
  });
}

/** The same where PostgreSQL could be asked all the time. */
function unnoticed(scenario: FaultScenario): FaultResult {
  const { unavailable } = counter(scenario.all);
  const { rejected } = decision({
    errorReplies: [[unavailable === 0, `${unavailable} requests were refused`]],
  });
  return { ...refusedOrUnnoticed(scenario), rejected };
}

const postgresIs = async (
  context: TestContext,
  fault: Omit<Fault, 'dependency'>,
  judge = refusedOrUnnoticed,
): Promise<FaultScenario> => {
  const prepare = () => fixture.inRedis();
  return survive(context, fixture, { ...fault, prepare, dependency: 'postgres' }, judge);
};

/** Ends every connection of the service but those of the superuser; a row for each. */
const terminateAll = (sql: Sql) => sql`
  select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'hotel-api %'`;

describe('who asks for what is cached does not notice, and others are refused at once, while PostgreSQL', () => {
  it('is frozen', (context) =>
    postgresIs(context, {
      name: 'PostgreSQL frozen',
      shortMs: 2_000,
      longMs: 5_000,
      begin: () => fixture.postgres.server.freeze(),
      end: () => fixture.postgres.server.thaw(),
    }));

  it('is killed and started again', (context) =>
    postgresIs(context, {
      name: 'PostgreSQL killed, restarted',
      shortMs: 2_000,
      longMs: 10_000,
      begin: () => fixture.postgres.server.kill(),
      end: () => fixture.postgres.server.restart(),
    }));

  it('is gone from the far end of every connection', (context) =>
    postgresIs(context, {
      name: 'PostgreSQL half-open: every connection dead, new ones good',
      shortMs: 2_000,
      longMs: 5_000,
      begin: () => fixture.postgres.proxy.strand(),
      end: () => {},
    }));

  it('cannot be reached: connections stand and nothing passes', (context) =>
    postgresIs(context, {
      name: 'PostgreSQL half-open: black hole',
      shortMs: 2_000,
      longMs: 5_000,
      begin: () => fixture.postgres.proxy.blackout(),
      end: () => fixture.postgres.proxy.heal(),
    }));

  it('has its backends terminated every second', (context) => {
    let terminating: NodeJS.Timeout;
    return postgresIs(context, {
      name: 'PostgreSQL: backends terminated every second',
      shortMs: 2_200,
      longMs: 10_000,
      begin: async () => {
        terminating = setInterval(() => terminateAll(fixture.postgres.sql), 1_000);
        await terminateAll(fixture.postgres.sql);
      },
      end: () => clearInterval(terminating),
    });
  });

  it('has no connection left to give', (context) => {
    const thieves: Sql[] = [];
    const takesOne = (): Promise<boolean> => {
      const thief = postgres(fixture.postgres.url, { max: 1, onnotice: () => {}, fetch_types: false });
      thieves.push(thief);
      return thief`select 1`.then(
        () => true,
        () => false,
      );
    };
    return postgresIs(context, {
      name: 'PostgreSQL: max_connections exhausted',
      shortMs: 2_000,
      longMs: 5_000,
      begin: async () => {
        // one after the other: a crowd that goes on asking would take the processors as well
        do {
          while (await takesOne());
        } while ((await terminateAll(fixture.postgres.sql)).length > 0);
      },
      end: () => Promise.all(thieves.map((thief) => thief.end({ timeout: 0 }))),
    });
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

describe('nobody notices that PostgreSQL', () => {
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
      unnoticed,
    ).finally(() => owner.end());
  });
});

/** One connection of its own, for a transaction that stays open. */
const postgresAsOwner = (): Sql =>
  postgres(fixture.service.database.ownerUrl, { max: 1, onnotice: () => {}, backoff: () => 0.05 });
