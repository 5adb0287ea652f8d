import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Entry } from '../hotels/entry.ts';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { pause, useClock } from '../lib/clock.ts';
import { CacheArena } from './arena/arena.ts';
import { WarmUp, type WarmUpResult } from './warm-up.ts';

const SLOW_MS = 200;
const IDS = Array.from({ length: 96 }, (_, i) => `h${String(i).padStart(2, '0')}`);

let clock: VirtualClock;
/** number of hotels of each load */
let counts: number[];
beforeEach(() => {
  clock = new VirtualClock();
});
afterEach(() => useClock());

/** Warms a cache of 1 MiB, 8 hotels a load, of which these, from 0, are slow or fail. */
async function warmed(
  slow: number[],
  failing: number[] = [],
  options: {
    listed?: number | undefined;
    everyMs?: number;
    slowMs?: number;
    isCurrent?: (afterMs: number) => boolean;
    arenaBytes?: number;
    /** of each hotel; without, none is found */
    hotelBytes?: number;
  } = { listed: IDS.length },
): Promise<WarmUpResult> {
  const { listed, everyMs = 0, slowMs = SLOW_MS, isCurrent = () => true } = options;
  const { arenaBytes = 1024 ** 2, hotelBytes } = options;
  const beganMs = clock.nowMs;
  let loads = 0;
  counts = [];
  let result: WarmUpResult | undefined;
  const warmUp = new WarmUp({
    local: { arena: new CacheArena(arenaBytes) },
    reader: {
      load: async (_, ids) => {
        const load = loads++;
        counts.push(ids.length);
        await pause(slow.includes(load) ? SLOW_MS + 50 : everyMs);
        if (failing.includes(load)) throw new Error('invalid page in block 7');
        return ids.map(() => (hotelBytes ? new Entry(Buffer.alloc(hotelBytes)) : null));
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
    isCurrent: () => isCurrent(clock.nowMs - beganMs),
    isStopping: () => false,
    number: 1,
    workers: 1,
  });
  void warmUp.run(30_000).then((ended) => {
    result = ended;
  });
  await clock.until(() => result !== undefined);
  return result!;
}

it('a warm-up ends after a slow load, unless it is one of the first, before the code is compiled', async () => {
  expect(await warmed([0, 1])).toMatchObject({ hotels: IDS.length, end: 'complete' });
  expect(await warmed([0, 2])).toMatchObject({ hotels: 3 * 8, end: 'slow' });
});

it('a warm-up loads as many hotels at once as have 2 MiB, by the size of those before', async () => {
  const arenaBytes = 64 * 1024 ** 2;
  await warmed([], [], { listed: IDS.length, arenaBytes, hotelBytes: 1024 });
  expect(counts).toEqual([32, 64]);
  await warmed([], [], { listed: IDS.length, arenaBytes, hotelBytes: 50 * 1024 });
  expect(counts).toEqual([32, 40, 24]);
});

it('a warm-up that is late does not wait for a negative time, of which Node 24 warns', async () => {
  const timers = vi.spyOn(clock, 'setTimer');
  await warmed([0]);
  const delays = timers.mock.calls.map(([, delayMs]) => delayMs);
  // one a load, at least
  expect(delays.length).toBeGreaterThan(IDS.length / 8);
  expect(Math.min(...delays)).toBeGreaterThanOrEqual(0);
});

it('a warm-up ends after a second that added less than a twentieth of the list, which is long if it is not counted', async () => {
  // each load takes longer than a second, and is not slow
  const steady = { everyMs: 1_050, slowMs: 60_000 };
  const complete = { hotels: IDS.length, end: 'complete' };
  expect(await warmed([], [], { ...steady, listed: 8 * 20 })).toMatchObject(complete);
  for (const listed of [8 * 20 + 1, undefined])
    expect(await warmed([], [], { ...steady, listed })).toMatchObject({ hotels: 3 * 8, end: 'small gain' });
});

it('a warm-up waits while the log is not followed, until its time is over', async () => {
  const except = (fromMs: number, toMs: number) => (afterMs: number) => afterMs < fromMs || afterMs >= toMs;
  const steady = { listed: IDS.length, everyMs: 100 };
  const paused = await warmed([], [], { ...steady, isCurrent: except(250, 2_250) });
  expect(paused).toMatchObject({ hotels: IDS.length, end: 'complete' });
  expect(paused.tookMs).toBeGreaterThan(2_000);
  const silent = await warmed([], [], { ...steady, isCurrent: except(0, Infinity) });
  expect(silent).toMatchObject({ hotels: 0, tookMs: 30_000, end: 'timeout' });
});

it('a warm-up that fails reports why, and the worker starts', async () => {
  const reason = 'invalid page in block 7';
  expect(await warmed([], [2])).toMatchObject({ hotels: 2 * 8, end: 'failed', reason });
});
