import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Values } from '../redis/reply-parser.ts';
import { MarkerWatch } from './marker-watch.ts';

/** Announces these markers, one a second, while Redis holds those beside them; returns whether each was found to be wrong. */
async function wrongOf(...seconds: [announced: string | null, found: string | null][]): Promise<boolean[]> {
  let held: string | null = null;
  let distrusted = 0;
  const redis = {
    connection: 1,
    readMany: async () => {
      const bytes = Buffer.from(held ?? '');
      return new Values(bytes, [0, held === null ? -1 : bytes.length]);
    },
    distrust: () => {
      distrusted++;
    },
  };
  const watch = new MarkerWatch(redis as never, () => {});
  watch.follow('d');
  const wrong: boolean[] = [];
  for (const [i, [announced, found]] of seconds.entries()) {
    held = found;
    const before = distrusted;
    watch.announced(announced, 1_000 * i);
    await setImmediate();
    wrong.push(distrusted > before);
  }
  return wrong;
}

it('the announced marker and later ones are right, and none is if it is left again', async () => {
  const seconds = await wrongOf(
    ['t:9', 't:9'],
    ['t:10', 't:12'],
    ['t:13', null],
    [null, 't:1'],
    ['t:14', 't:14'],
  );
  expect(seconds).toEqual(new Array(5).fill(false));
});

it('no marker is wrong if it stays so while others are announced', async () => {
  expect(await wrongOf(['t:9', null], ['t:10', null])).toEqual([false, true]);
});

it('an older marker of the same term is wrong', async () => {
  expect(await wrongOf(['t:10', 't:9'])).toEqual([true]);
});

it('a marker of another term is wrong if it stays while others are announced', async () => {
  expect(await wrongOf(['u:1', 't:9'], ['u:2', 't:9'])).toEqual([false, true]);
});

it('the marker of a new term is right, however long its announcement takes', async () => {
  const late = await wrongOf(['t:9', 'u:1'], ['t:9', 'u:1'], ['t:10', 'u:2'], ['u:2', 'u:2']);
  expect(late).toEqual([false, false, false, false]);
});

it('after a new connection, what came over the one before since its last check is suspect', async () => {
  const redis = { connection: 1, readMany: async () => new Values(Buffer.from('t:9'), [0, 3]) };
  const suspect: number[] = [];
  const watch = new MarkerWatch(redis as never, (sinceMs) => suspect.push(sinceMs));
  watch.follow('d');
  const checks: [connection: number, atMs: number][] = [
    [1, 1_000],
    [1, 2_000],
    [3, 3_000],
    [3, 4_000],
    [4, 5_000],
  ];
  for (const [connection, atMs] of checks) {
    redis.connection = connection;
    watch.announced('t:9', atMs);
    await setImmediate();
  }
  expect(suspect).toEqual([2_000, 4_000]);
});
