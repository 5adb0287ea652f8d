import { beforeAll, describe, it, type TestContext } from 'vitest';
import { needs } from '../support/needs.ts';
import { type Course, type Fault, foundOut } from './course.ts';
import { Stand } from './stand.ts';
import { failures, tally } from './tally.ts';
import { survive, type Verdict, verdict } from './verdict.ts';

await needs('redis-server');

let stand: Stand;

beforeAll(async () => {
  stand = await Stand.open();
});

/** What is promised while both are away. */
function localOnly(course: Course): Verdict {
  const { during, all, firstColdMs } = course;
  const whole = tally(all);
  // Redis comes back empty: what workers took from it lately is given up then, and read again
  const { p99Ms, unavailable } = tally(during, ['single', 'batch']);
  const late = tally(foundOut(course), ['cold', 'unknown']);
  return verdict({
    answers: [
      [failures(whole) === 0, `${failures(whole)} requests failed`],
      [late.unavailable > 0, 'nothing was refused'],
    ],
    refusals: [[unavailable === 0, `${unavailable} requests for cached hotels were refused`]],
    times: [
      [p99Ms <= 200, `p99 of cached hotels in the fault was ${p99Ms} ms`],
      [late.p99Ms <= 100, `p99 of refusals was ${late.p99Ms} ms`],
      [firstColdMs <= 2_000, `the first cold answer came after ${firstColdMs} ms`],
    ],
  });
}

const bothAre = async (context: TestContext, fault: Fault): Promise<Course> => {
  const prepare = () => stand.inWorkers();
  return survive(context, stand, { ...fault, prepare, dependency: 'postgres' }, localOnly);
};

describe('what a worker holds goes on being answered, and the rest is refused at once, while Redis and PostgreSQL', () => {
  it('are killed', (context) =>
    bothAre(context, {
      name: 'both killed, restarted',
      shortMs: 2_000,
      longMs: 30_000,
      begin: () => Promise.all([stand.redis.server.kill(), stand.postgres.server.kill()]),
      end: () => Promise.all([stand.redis.server.restart(), stand.postgres.server.restart()]),
    }));

  it('are frozen', (context) =>
    bothAre(context, {
      name: 'both frozen',
      shortMs: 2_500,
      longMs: 30_000,
      begin: () => Promise.all([stand.redis.server.freeze(), stand.postgres.server.freeze()]),
      end: () => Promise.all([stand.redis.server.thaw(), stand.postgres.server.thaw()]),
    }));
});
