import type { Origin } from './origin.ts';
import type { Compression } from './probes/compression.ts';
import type { Probe } from './probes/probe.ts';
import type { Cell } from './rounds.ts';
import type { SweepPoint } from './sweep.ts';

/** All figures of a run: the content of bench/results/latest.json and quick.json. */
export interface Results extends Origin {
  quick: boolean;
  hotels: number;
  meanHotelBytes: number;
  sentences: string[];
  cells: Cell[];
  sweep: SweepPoint[];
  probes: Probe[];
  compression: Compression[];
  /** main scenarios by autocannon, to confirm the generator */
  autocannon: Cell[];
}
