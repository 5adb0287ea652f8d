import { beforeAll, describe, it, type TestContext } from 'vitest';
import { type Course, type Fault, inForm, survive, type Verdict, verdict } from './fault.ts';
import { Stand } from './stand.ts';
import { failures, tally } from './tally.ts';

/** By then the breakers have found out, whose deadline is 500 ms for PostgreSQL. */
const FOUND_OUT_MS = 800;

let stand: Stand;

beforeAll(async () => {
  stand = await Stand.open();
});

/** What is promised while both are away, of what is due from `fromMs` on after the beginning. */
const localOnly =
  (fromMs: number) =>
  ({ during, all, firstColdMs }: Course): Verdict => {
    // Redis comes back empty: what workers took from it lately is given up then, and read again
    const cached = tally(during, ['single', 'batch']);
    const { p99Ms } = cached;
    const others = tally(all, ['cold', 'unknown']);
    const beganMs = during[0]!.dueMs;
    const late = tally(
      during.filter(({ dueMs }) => dueMs >= beganMs + fromMs),
      ['cold', 'unknown'],
    );
    return verdict(
      [
        [failures(cached) === 0, `${failures(cached)} requests for cached hotels failed`],
        [cached.unavailable === 0, `${cached.unavailable} requests for cached hotels were refused`],
        [failures(others) === 0, `${failures(others)} other requests failed`],
        [late.unavailable > 0, 'nothing was refused'],
      ],
      [
        [p99Ms <= 200, `p99 of cached hotels in the fault was ${p99Ms} ms`],
        // the short form shares the processors with other tests
        [late.p99Ms <= inForm(250, 100), `p99 of refusals was ${late.p99Ms} ms`],
        [firstColdMs <= 2_000, `the first cold answer came after ${firstColdMs} ms`],
      ],
    );
  };

const bothAre = async (context: TestContext, fault: Fault, fromMs: number): Promise<Course> => {
  const prepare = () => stand.inWorkers();
  return survive(context, stand, { ...fault, prepare, dependency: 'postgres' }, localOnly(fromMs));
};

describe('what a worker holds goes on being answered, and the rest is refused at once, while Redis and PostgreSQL', () => {
  it('are killed', (context) =>
    bothAre(
      context,
      {
        name: 'both killed, restarted',
        shortMs: 2_000,
        longMs: 30_000,
        begin: () => Promise.all([stand.redis.server.kill(), stand.postgres.server.kill()]),
        end: () => Promise.all([stand.redis.server.restart(), stand.postgres.server.restart()]),
      },
      FOUND_OUT_MS,
    ));

  it('are frozen', (context) =>
    bothAre(
      context,
      {
        name: 'both frozen',
        shortMs: 2_500,
        longMs: 30_000,
        begin: () => Promise.all([stand.redis.server.freeze(), stand.postgres.server.freeze()]),
        end: () => Promise.all([stand.redis.server.thaw(), stand.postgres.server.thaw()]),
      },
      FOUND_OUT_MS,
    ));
});
