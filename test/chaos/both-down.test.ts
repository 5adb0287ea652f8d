import { beforeAll, describe, it, type TestContext } from 'vitest';
import { needs } from '../support/needs.ts';
import { decision, type FaultResult, survive } from './fault-result.ts';
import { type Fault, type FaultScenario, foundOut } from './fault-scenario.ts';
import { Fixture } from './service-fixture.ts';
import { counter, failures } from './tally.ts';

await needs('redis-server');

let fixture: Fixture;

beforeAll(async () => {
  fixture = await Fixture.open();
});

/** What is promised while both are away. */
function localOnly(scenario: FaultScenario): FaultResult {
  const { during, all, firstColdMs } = scenario;
  const whole = counter(all);
  // Redis comes back empty: what workers took from it lately is given up then, and read again
  const { p99Ms, unavailable } = counter(during, ['single', 'batch']);
  const late = counter(foundOut(scenario), ['cold', 'unknown']);
  return decision({
    answers: [
      [failures(whole) === 0, `${failures(whole)} requests failed`],
      [late.unavailable > 0, 'nothing was refused'],
    ],
    errorReplies: [[unavailable === 0, `${unavailable} requests for cached hotels were refused`]],
    times: [
      [p99Ms <= 200, `p99 of cached hotels in the fault was ${p99Ms} ms`],
      [late.p99Ms <= 100, `p99 of refusals was ${late.p99Ms} ms`],
      [firstColdMs <= 2_000, `the first cold answer came after ${firstColdMs} ms`],
    ],
  });
}

const bothAre = async (context: TestContext, fault: Fault): Promise<FaultScenario> => {
  const prepare = () => fixture.inWorkers();
  return survive(context, fixture, { ...fault, prepare, dependency: 'postgres' }, localOnly);
};

describe('what a worker holds goes on being answered, and the rest is refused at once, while Redis and PostgreSQL', () => {
  it('are killed', (context) =>
    bothAre(context, {
      name: 'both killed, restarted',
      shortMs: 2_000,
      longMs: 30_000,
      begin: () => Promise.all([fixture.redis.server.kill(), fixture.postgres.server.kill()]),
      end: () => Promise.all([fixture.redis.server.restart(), fixture.postgres.server.restart()]),
    }));

  it('are frozen', (context) =>
    bothAre(context, {
      name: 'both frozen',
      shortMs: 2_500,
      longMs: 30_000,
      begin: () => Promise.all([fixture.redis.server.freeze(), fixture.postgres.server.freeze()]),
      end: () => Promise.all([fixture.redis.server.thaw(), fixture.postgres.server.thaw()]),
    }));
});
