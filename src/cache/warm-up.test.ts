import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { CacheArena } from './arena/arena.ts';
import { WarmUp } from './warm-up.ts';

const SLOW_MS = 200;
const IDS = Array.from({ length: 50 }, (_, i) => `h${String(i).padStart(2, '0')}`);

/** Warms a cache of 1 MiB, 8 hotels a load, of which these, from 0, are slow or fail. */
function warmed(
  slow: number[],
  failing: number[] = [],
  options: { listed?: number | undefined; everyMs?: number; slowMs?: number } = { listed: IDS.length },
) {
  const { listed, everyMs = 0, slowMs = SLOW_MS } = options;
  let loads = 0;
  return new WarmUp({
    local: { arena: new CacheArena(1024 ** 2) },
    reader: {
      load: async (_, ids) => {
        const load = loads++;
        await sleep(slow.includes(load) ? SLOW_MS + 50 : everyMs);
        if (failing.includes(load)) throw new Error('invalid page in block 7');
        return ids.map(() => null);
      },
    },
    repository: {
      idsFrom: async (from, skip, count) => {
        const start = (from === null ? 0 : IDS.indexOf(from)) + skip;
        return IDS.slice(start, start + count);
      },
      countBetween: async () => {
        if (listed === undefined) throw new Error('too late');
        return [listed];
      },
    },
    redisBatch: undefined,
    slowMs,
    isCurrent: () => true,
    isStopping: () => false,
    number: 1,
    workers: 1,
  }).run(30_000);
}

it('a warm-up ends after a slow load, unless it is the first, which compiles the code', async () => {
  expect(await warmed([0])).toMatchObject({ hotels: IDS.length, end: 'complete' });
  expect(await warmed([0, 2])).toMatchObject({ hotels: 3 * 8, end: 'slow' });
});

it('a warm-up that is late does not wait for a negative time, of which Node 24 warns', async () => {
  const timers = vi.spyOn(globalThis, 'setTimeout');
  await warmed([0]);
  const delays = timers.mock.calls.map(([, delayMs]) => delayMs!);
  timers.mockRestore();
  // one a load, at least
  expect(delays.length).toBeGreaterThan(IDS.length / 8);
  expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
});

it('a warm-up ends after a second that added less than a twentieth of the list, which is long if it is not counted', async () => {
  // each load takes longer than a second, and is not slow
  const steady = { everyMs: 1_050, slowMs: 60_000 };
  const [all, longer, unknown] = await Promise.all([
    warmed([], [], { ...steady, listed: 8 * 20 }),
    warmed([], [], { ...steady, listed: 8 * 20 + 1 }),
    warmed([], [], { ...steady, listed: undefined }),
  ]);
  expect(all).toMatchObject({ hotels: IDS.length, end: 'complete' });
  for (const result of [longer, unknown]) expect(result).toMatchObject({ hotels: 2 * 8, end: 'small gain' });
});

it('a warm-up that fails reports why, and the worker starts', async () => {
  const reason = 'invalid page in block 7';
  expect(await warmed([], [2])).toMatchObject({ hotels: 2 * 8, end: 'failed', reason });
});
