import { beforeEach, expect, it } from 'vitest';
import { Entry } from '../hotels/entry.ts';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { pause } from '../lib/clock.ts';
import { CacheArena } from './arena/arena.ts';
import { CacheMemory } from './memory.ts';
import { WarmUp, type WarmUpResult } from './warm-up.ts';

const MIB = 1024 ** 2;
const SLOW_MS = 200;
/** in the order of the list, which is that of UTF-8 and not of UTF-16 */
const IDS = Array.from({ length: 96 }, (_, i) => `${i < 48 ? '\uff00' : '😀'}${String(i).padStart(2, '0')}`);

let clock: VirtualClock;
/** number of hotels of each load */
let counts: number[];
beforeEach(() => {
  clock = new VirtualClock();
});

/** A cache of 1 MiB, 8 hotels a load, none of which is found. */
const USUAL = {
  /** loads, from 0 */
  slow: [] as number[],
  failing: [] as number[],
  /** number of hotels of the list; undefined: they are not counted in time */
  listed: IDS.length as number | undefined,
  loadMs: 0,
  slowMs: SLOW_MS,
  isCurrent: (_afterMs: number) => true,
  arenaBytes: MIB,
  /** of each hotel; 0: none is found */
  hotelBytes: 0,
  /** of the worker, of two */
  number: 1,
};

async function warmed(of: Partial<typeof USUAL>): Promise<WarmUpResult> {
  const { slow, failing, listed, loadMs, slowMs, isCurrent, arenaBytes, hotelBytes, number } = {
    ...USUAL,
    ...of,
  };
  const beganMs = clock.nowMs;
  counts = [];
  let result: WarmUpResult | undefined;
  const warmUp = new WarmUp({
    local: { arena: new CacheArena(new CacheMemory(arenaBytes)) },
    reader: {
      load: async (_, ids) => {
        const load = counts.push(ids.length) - 1;
        await pause(slow.includes(load) ? SLOW_MS + 50 : loadMs);
        if (failing.includes(load)) throw new Error('invalid page in block 7');
        return ids.map(() => (hotelBytes ? new Entry(Buffer.alloc(hotelBytes)) : null));
      },
    },
    list: {
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
    number,
    workers: 2,
  });
  void warmUp.run(30_000).then((ended) => {
    result = ended;
  });
  await clock.until(() => result !== undefined);
  return result!;
}

/** Each load takes longer than a second, and is not slow. */
const STEADY = { loadMs: 1_050, slowMs: 60_000 };
const COMPLETE = { hotels: IDS.length, end: 'complete' } as const;
const SMALL_GAIN = { hotels: 3 * 8, end: 'small gain' } as const;

it.each<[string, Partial<typeof USUAL>, Partial<WarmUpResult>]>([
  ['goes on behind slow first loads, before the code is compiled', { slow: [0, 1] }, COMPLETE],
  ['of another worker begins in the middle of the list, and loads it once', { number: 2 }, COMPLETE],
  ['ends after a slow load', { slow: [0, 2] }, { hotels: 3 * 8, end: 'slow' }],
  ['goes on while a second adds a twentieth of the list', { ...STEADY, listed: 8 * 20 }, COMPLETE],
  ['ends after a second that added less', { ...STEADY, listed: 8 * 20 + 1 }, SMALL_GAIN],
  ['takes a list that is not counted for a long one', { ...STEADY, listed: undefined }, SMALL_GAIN],
  [
    'waits while the log is not followed',
    { loadMs: 100, isCurrent: (afterMs) => afterMs < 250 || afterMs >= 2_250 },
    { ...COMPLETE, tookMs: 3_162 },
  ],
  [
    'waits until its time is over',
    { loadMs: 100, isCurrent: () => false },
    { hotels: 0, tookMs: 30_000, end: 'timeout' },
  ],
  [
    'that fails reports why',
    { failing: [2] },
    { hotels: 2 * 8, end: 'failed', reason: 'invalid page in block 7' },
  ],
])('a warm-up %s', async (_, of, expected) => {
  expect(await warmed(of)).toMatchObject(expected);
});

it('a warm-up loads as many hotels at once as have 2 MiB, by the size of those before', async () => {
  await warmed({ arenaBytes: 64 * MIB, hotelBytes: 1024 });
  expect(counts).toEqual([32, 64]);
  await warmed({ arenaBytes: 64 * MIB, hotelBytes: 50 * 1024 });
  expect(counts).toEqual([32, 40, 24]);
});
