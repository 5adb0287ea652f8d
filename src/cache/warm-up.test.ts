import { beforeEach, expect, it } from 'vitest';
import { Entry } from '../hotels/entry.ts';
import { VirtualClock } from '../lib/clock.fixture.ts';
import { pause } from '../lib/clock.ts';
import { CacheArena } from './arena/arena.ts';
import { CacheMemory } from './memory.ts';
import { warmUp } from './warm-up.ts';

const MIB = 1024 ** 2;
const IDS = Array.from({ length: 1_096 }, (_, i) => String(i).padStart(4, '0'));

let clock: VirtualClock;
/** number of hotels of each load */
let counts: number[];
let tookMs: number;
beforeEach(() => {
  clock = new VirtualClock();
});

/** The first load is of 32 hotels, the next of 500, none of which is found. */
const USUAL = {
  ids: IDS,
  loadMs: 0,
  /** load that fails, from 1 */
  failing: 0,
  isCurrent: (_afterMs: number) => true,
  arenaBytes: 64 * MIB,
  /** of each hotel; 0: none is found */
  hotelBytes: 0,
};

/** Returns the number of hotels, and why the warm-up of 30 s ended. */
async function warmed(of: Partial<typeof USUAL>): Promise<[number, string]> {
  const { ids: listed, loadMs, failing, isCurrent, arenaBytes, hotelBytes } = { ...USUAL, ...of };
  const beganMs = clock.nowMs;
  const arena = new CacheArena(new CacheMemory(arenaBytes));
  counts = [];
  let result: [number, string] | undefined;
  const options: Parameters<typeof warmUp>[0] = {
    local: { arena },
    reader: {
      load: async (_, ids) => {
        counts.push(ids.length);
        await pause(loadMs);
        if (counts.length === failing) throw new Error('invalid page in block 7');
        return ids.map(() => (hotelBytes ? new Entry(Buffer.alloc(hotelBytes)) : null));
      },
    },
    list: {
      ids: async ([from], skip, count) => {
        const start = (from === null ? 0 : listed.indexOf(from)) + skip;
        return listed.slice(start, start + count);
      },
    },
    isCurrent: () => isCurrent(clock.nowMs - beganMs),
    isStopping: () => false,
    workers: 2,
  };
  void warmUp(options, 30_000).then((ended) => {
    tookMs = clock.nowMs - beganMs;
    result = ended;
  });
  await clock.until(() => result !== undefined);
  return result!;
}

const ALL = [IDS.length, 'complete'];
const idsOf = (count: number) => Array.from({ length: count }, (_, i) => String(i).padStart(5, '0'));

it.each<[string, Partial<typeof USUAL>, unknown]>([
  ['loads every hotel, and none twice', {}, ALL],
  ['of an empty list is complete', { ids: [] }, [0, 'complete']],
  ['goes on if a twentieth took a second', { ids: idsOf(10_640), loadMs: 1_050 }, [10_640, 'complete']],
  ['ends if less took a second', { ids: idsOf(10_641), loadMs: 1_050 }, [532, 'long list']],
  ['waits until its time is over', { isCurrent: () => false }, [0, 'late']],
  ['that fails reports why', { failing: 3 }, [532, 'failed: invalid page in block 7']],
])('a warm-up %s', async (_, of, expected) => {
  expect(await warmed(of)).toEqual(expected);
});

it('a warm-up waits while the log is not followed', async () => {
  const isCurrent = (afterMs: number) => afterMs < 250 || afterMs >= 2_250;
  expect(await warmed({ loadMs: 100, isCurrent })).toEqual(ALL);
  expect(tookMs).toBeGreaterThan(2_250);
});

it('a warm-up loads as many hotels at once as have 2 MiB, by the size of those before', async () => {
  await warmed({ hotelBytes: 1024 });
  expect(counts).toEqual([32, 500, 500, 64]);
  await warmed({ hotelBytes: 50 * 1024 });
  expect(counts.slice(0, 3)).toEqual([32, 41, 41]);
});
