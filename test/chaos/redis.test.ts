import { beforeAll, describe, it, type TestContext } from 'vitest';
import { broken, type Course, type Fault, survive } from './fault.ts';
import { Stand } from './stand.ts';
import { failures, tally } from './tally.ts';

let stand: Stand;

beforeAll(async () => {
  // a local cache that holds a part of what is asked for: Redis is needed all the time
  stand = await Stand.open({ env: { L1_MAX_BYTES: String(1024 ** 2) } });
});

/** What is promised while Redis is away: nobody notices. */
function unnoticed({ during, all, usedAgainMs }: Course): string[] {
  const whole = tally(all);
  const { p99Ms } = tally(during);
  return broken(
    [failures(whole) === 0, `${failures(whole)} requests failed`],
    [whole.unavailable === 0, `${whole.unavailable} requests were refused`],
    [p99Ms <= 200, `p99 in the fault was ${p99Ms} ms`],
    [usedAgainMs! <= 2_000, `Redis was used again after ${usedAgainMs} ms`],
  );
}

const redisIs = (context: TestContext, fault: Omit<Fault, 'dependency'>): Promise<Course> =>
  survive(context, stand, { ...fault, dependency: 'redis' }, unnoticed);

describe('nobody notices that Redis', () => {
  it('is frozen', (context) =>
    redisIs(context, {
      name: 'Redis frozen',
      shortMs: 1_200,
      longMs: 5_000,
      begin: () => stand.redis.server.freeze(),
      end: () => stand.redis.server.thaw(),
    }));

  it('is killed and starts again empty', (context) =>
    redisIs(context, {
      name: 'Redis killed, restarted empty',
      shortMs: 1_000,
      longMs: 10_000,
      begin: () => stand.redis.server.kill(),
      end: () => stand.redis.server.restart(),
    }));
});
