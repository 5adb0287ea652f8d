import type { Metric } from './metric.ts';

const TIERS = ['local', 'redis', 'postgres'] as const;
const ANSWERS = ['hit', 'absent', 'miss'] as const;

export type Tier = (typeof TIERS)[number];
/** Results of a lookup in a tier: found, known to be absent, unknown. */
export type Answer = (typeof ANSWERS)[number];

/**
 * Counts lookups by tier and result. The counts are plain fields, because a call with two labels costs a cached
 * request more than its lookup. All nine series are exported from the start.
 */
export class LookupCounter implements Metric {
  readonly name: string;
  readonly #help: string;
  readonly counts: Record<Tier, Record<Answer, number>> = {
    local: { hit: 0, absent: 0, miss: 0 },
    redis: { hit: 0, absent: 0, miss: 0 },
    postgres: { hit: 0, absent: 0, miss: 0 },
  };

  constructor(name: string, help: string) {
    this.name = name;
    this.#help = help;
  }

  get() {
    const values = TIERS.flatMap((tier) =>
      ANSWERS.map((answer) => ({ labels: { tier, answer }, value: this.counts[tier][answer] })),
    );
    return { name: this.name, help: this.#help, type: 'counter', aggregator: 'sum' as const, values };
  }
}
