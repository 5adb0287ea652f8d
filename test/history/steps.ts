import type { Draw } from '../../src/cli/seed/draw.ts';

/** Number of possible hotels, channel ids and registry ids; a list of all fits on one page. */
export const HOTELS = 48;
/** Number of keys that change, beside two that do not. */
export const KEYS = 6;

const WRITES = [
  'update',
  'update all',
  'update seldom',
  'insert',
  'delete',
  'upsert',
  'rename',
  'swap channels',
  'swap registries',
  'truncate and copy',
  'delete and copy',
  'merge',
  'cross',
] as const;
const WRITERS = ['owner', 'replication', 'without a path', 'without rights'] as const;
const ENDS = ['commit', 'rollback', 'prepare'] as const;
const KEY_CHANGES = [
  'create',
  'revoke',
  'restore',
  'delete',
  'scopes',
  'expire',
  'rotate',
  'rehash',
  'reinsert',
  'cross',
] as const;

/** Faults, each with its maximum duration in ms and its weight. */
const FAULTS = {
  'redis killed': { longestMs: 3_000, weight: 4 },
  'redis saved': { longestMs: 0, weight: 4 },
  'redis killed, restored from its dump': { longestMs: 3_000, weight: 6 },
  'redis flushed': { longestMs: 0, weight: 2 },
  'redis frozen': { longestMs: 6_000, weight: 4 },
  'redis unreachable': { longestMs: 8_000, weight: 4 },
  'redis slow': { longestMs: 5_000, weight: 2 },
  'redis half open': { longestMs: 0, weight: 2 },
  'redis reset': { longestMs: 0, weight: 2 },
  'redis put back, between two commands': { longestMs: 0, weight: 6 },
  'redis of its own': { longestMs: 6_000, weight: 6 },
  'redis replica that lags': { longestMs: 6_000, weight: 6 },
  'postgres killed': { longestMs: 3_000, weight: 4 },
  'postgres frozen': { longestMs: 8_000, weight: 2 },
  'postgres backends ended': { longestMs: 0, weight: 2 },
  'postgres unreachable': { longestMs: 10_000, weight: 2 },
  'postgres half open': { longestMs: 0, weight: 2 },
  'postgres reset': { longestMs: 0, weight: 1 },
  'log unreachable': { longestMs: 10_000, weight: 5 },
  'log slow': { longestMs: 8_000, weight: 3 },
  'database saved': { longestMs: 0, weight: 2 },
  'database restored in place': { longestMs: 0, weight: 2 },
  'data folder saved': { longestMs: 0, weight: 2 },
  'data folder restored': { longestMs: 0, weight: 2 },
  'copy saved': { longestMs: 0, weight: 1 },
  'copy put in place': { longestMs: 0, weight: 2 },
  'copy served beside': { longestMs: 0, weight: 2 },
  'replica promoted': { longestMs: 5_000, weight: 4 },
  'primary frozen': { longestMs: 14_000, weight: 4 },
  'worker frozen': { longestMs: 10_000, weight: 2 },
  'instance frozen': { longestMs: 12_000, weight: 2 },
  'worker killed': { longestMs: 0, weight: 1 },
  'primary killed': { longestMs: 1_000, weight: 1 },
  'instance restarted': { longestMs: 500, weight: 1 },
  'clock set': { longestMs: 0, weight: 3 },
} as const;
export type FaultName = keyof typeof FAULTS;

/** Fault that must precede another for it to have an effect. */
const PREPARED_BY: Partial<Record<FaultName, FaultName>> = {
  'redis killed, restored from its dump': 'redis saved',
  'redis put back, between two commands': 'redis saved',
  'database restored in place': 'database saved',
  'data folder restored': 'data folder saved',
  'copy put in place': 'copy saved',
};

/** Step of an episode. Steps are independent, so that any may be omitted. */
export type Step =
  | { do: 'pause'; ms: number }
  | {
      do: 'write';
      write: (typeof WRITES)[number];
      as: (typeof WRITERS)[number];
      end: (typeof ENDS)[number];
      /** time for which its transaction stays open, beside the following steps */
      holdMs: number;
      hotels: readonly number[];
      /** part of the names that it writes */
      token: number;
    }
  | { do: 'key'; change: (typeof KEY_CHANGES)[number] | 'truncate'; key: number; other: number }
  | {
      do: 'fault';
      fault: FaultName;
      /** instance of a fault of a single one; 2: both */
      instance: number;
      forMs: number;
      /** step of the wall clock */
      hours: number;
    };

export interface Options {
  /** names of excluded faults, writes, writers, ends and changes of keys */
  without: string[];
  /** faults that may be drawn; empty: all */
  only: string[];
}

/** Draws the steps of an episode. */
export function drawSteps(draw: Draw, { without, only }: Options): Step[] {
  const faults = drawFaults(draw, { without, only });
  const steps: Step[] = [];
  const writes = draw.between(25, 40);
  const places = faults.map(() => draw.below(writes)).sort((a, b) => a - b);
  const pickFrom = <T extends string>(names: readonly T[]) =>
    draw.pick(names.filter((name) => !without.includes(name)));
  for (let i = 0; i < writes; i++) {
    for (const [j, place] of places.entries()) if (place === i) steps.push(...faults[j]!);
    if (draw.chance(0.3)) {
      const [key, other] = [draw.below(KEYS), draw.below(KEYS)];
      steps.push({
        do: 'key',
        change: draw.chance(0.05) ? 'truncate' : pickFrom(KEY_CHANGES),
        key,
        other,
      });
    } else {
      const isHeld = draw.chance(0.25);
      const write = draw.chance(0.6)
        ? draw.pick(['update', 'update', 'update seldom'] as const)
        : pickFrom(WRITES);
      steps.push({
        do: 'write',
        write,
        as: draw.chance(0.8) ? 'owner' : pickFrom(WRITERS),
        end: draw.chance(0.85) ? 'commit' : pickFrom(ENDS),
        holdMs: isHeld ? draw.between(50, 2_000) : 0,
        hotels: Array.from({ length: draw.between(2, 8) }, () => draw.below(HOTELS)),
        token: i,
      });
    }
    steps.push({ do: 'pause', ms: draw.chance(0.15) ? draw.between(1_000, 2_500) : draw.between(0, 500) });
  }
  return steps;
}

function drawFaults(draw: Draw, { without, only }: Options): Step[][] {
  const names = (Object.keys(FAULTS) as FaultName[])
    .filter((name) => !without.includes(name) && (only.length === 0 || only.includes(name)))
    .flatMap((name) => Array<FaultName>(FAULTS[name].weight).fill(name));
  const faults: Step[][] = [];
  for (let count = draw.between(2, 6); names.length > 0 && count > 0; count--) {
    const steps: Step[] = [faultStep(draw, draw.pick(names))];
    // two concurrent faults find more than two separate ones
    if (draw.chance(0.35))
      steps.push({ do: 'pause', ms: draw.below(1_500) }, faultStep(draw, draw.pick(names)));
    faults.push(steps);
  }
  for (const steps of [...faults]) {
    for (const step of steps) {
      const before = step.do === 'fault' && PREPARED_BY[step.fault];
      if (before) faults.unshift([faultStep(draw, before)]);
    }
  }
  return faults;
}

function faultStep(draw: Draw, fault: FaultName): Step {
  const { longestMs } = FAULTS[fault];
  return {
    do: 'fault',
    fault,
    instance: draw.below(3),
    forMs: longestMs && draw.between(Math.min(300, longestMs), longestMs),
    hours: draw.pick([-3, -1, 1, 3, 30]),
  };
}
