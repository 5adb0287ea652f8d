import type { Metric } from './metric.ts';

const TIERS = ['local', 'redis', 'postgres'] as const;
const ANSWERS = ['hit', 'absent', 'miss'] as const;

export type Tier = (typeof TIERS)[number];
/** What a tier says of a key: it has it, it knows that there is none, it does not know. */
export type Answer = (typeof ANSWERS)[number];

/**
 * A counter of look-ups by tier and answer. The counts are plain fields for whoever looks up to raise: a call with two
 * labels for each costs a request from the local cache more than its look-up. All nine series are there from the start.
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
