import type { LoadResult } from './load/call.ts';
import type { Compression } from './probes/compression.ts';
import type { Cell } from './rounds.ts';

/** One rate of the open-loop sweep on one target. */
export interface SweepPoint extends LoadResult {
  scenario: string;
  target: string;
  perSecond: number;
}

/** What a probe measured, in rounds: in each a value of ours and what it is compared with. */
export interface Probe {
  name: ProbeName;
  /** in words, with units */
  what: string;
  ours: number[];
  theirs: number[];
}

export type ProbeName = 'cold' | 'deep-page' | 'event-loop';

/** All of a run; what bench/results/latest.json and quick.json hold. */
export interface Results {
  at: string;
  commit: string;
  quick: boolean;
  machine: { processor: string; cores: number; kernel: string; node: string };
  hotels: number;
  meanHotelBytes: number;
  sentences: string[];
  cells: Cell[];
  sweep: SweepPoint[];
  probes: Probe[];
  compression: Compression[];
  /** autocannon beside our own generator */
  witness: Cell[];
}

export function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Half the distance between the largest and the smallest, as a part of the median. */
export function spread(values: number[]): number {
  return (Math.max(...values) - Math.min(...values)) / 2 / median(values);
}
