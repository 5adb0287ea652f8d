import { beforeAll, describe, it } from 'vitest';
import { needs } from '../support/needs.ts';
import { decision, type FaultResult, survive } from './fault-result.ts';
import { afterDetection, type Fault, type FaultScenario } from './fault-scenario.ts';
import { outagesOf } from './outages.ts';
import { countOutcomes, failures } from './outcome-counts.ts';
import { Fixture } from './service-fixture.ts';

await needs('redis-server');

let fixture: Fixture;

beforeAll(async () => {
  fixture = await Fixture.open();
});

/** Checks the promises during an outage of both. */
function localOnly(scenario: FaultScenario): FaultResult {
  const { during, beforeRepair, all, firstColdMs } = scenario;
  const whole = countOutcomes(all);
  // Redis restarts empty: workers then drop the values that they recently read from it, and load them again
  const { p99Ms } = countOutcomes(during, ['single', 'batch']);
  const { unavailable } = countOutcomes(beforeRepair, ['single', 'batch']);
  const late = countOutcomes(afterDetection(scenario), ['cold', 'unknown']);
  return decision({
    answers: [
      [failures(whole) === 0, `${failures(whole)} requests failed`],
      [late.unavailable > 0, 'no request was rejected'],
    ],
    errorReplies: [[unavailable === 0, `${unavailable} requests for cached hotels were rejected`]],
    times: [
      [p99Ms <= 200, `p99 of cached hotels in the fault was ${p99Ms} ms`],
      [late.p99Ms <= 100, `p99 of rejections was ${late.p99Ms} ms`],
      [firstColdMs <= 2_000, `the first cold response came after ${firstColdMs} ms`],
    ],
  });
}

describe('cached hotels are served, and other requests rejected at once, while Redis and PostgreSQL', () => {
  it.for([
    ['are killed', 'both killed, restarted', 2_000, 'killed'],
    ['are frozen', 'both frozen', 2_500, 'frozen'],
  ] as const)('%s', ([, name, shortMs, outage], context) => {
    const both = [fixture.redis, fixture.postgres].map((server) => outagesOf(server)[outage]);
    const fault: Fault = {
      name,
      shortMs,
      longMs: 30_000,
      prepare: () => fixture.inWorkers(),
      begin: () => Promise.all(both.map(({ begin }) => begin())),
      end: () => Promise.all(both.map(({ end }) => end())),
      dependency: 'postgres',
    };
    return survive(context, fixture, fault, localOnly);
  });
});
