import { expect, it } from 'vitest';
import { describe, lookFor } from '../history/run.ts';
import { needs } from '../support/needs.ts';

await needs('redis-server');

const SECONDS = Number(process.env.HISTORY_SECONDS ?? 60);
/** Each run repeats the same histories; `node test/history/main.ts` searches for others. */
const SEED = Number(process.env.HISTORY_SEED ?? 160_001);
/** An episode that has begun is not interrupted; see its deadline. */
const EPISODE_SECONDS = 500;

it(
  'every response is fresh and correct, for any writes and faults',
  async () => {
    console.log(`seed ${SEED}`);
    // a replay searches for shorter lists, not this test
    const limits = { seconds: SECONDS, shrinkSeconds: 0 };
    const { found, answers } = await lookFor(SEED, { without: [], only: [] }, limits, console.log);
    if (found) expect.fail(describe(found));
    expect(answers).toBeGreaterThan(0);
  },
  1_000 * (SECONDS + 2 * EPISODE_SECONDS),
);
