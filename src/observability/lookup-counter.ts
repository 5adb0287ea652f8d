import { Counter, type Registry } from 'prom-client';
import { readAtScrape } from './read-at-scrape.ts';

const TIERS = ['local', 'redis', 'postgres'] as const;
const RESULTS = ['hit', 'absent', 'miss'] as const;

type Tier = (typeof TIERS)[number];
/** Results of a lookup in a tier: found, known to be absent, unknown. */
type Result = (typeof RESULTS)[number];

/**
 * Counts lookups by tier and result. The counts are plain fields, because a call with two labels costs a cached
 * request more than its lookup. All nine series are exported from the start.
 */
export class LookupCounter {
  readonly counts: Record<Tier, Record<Result, number>> = {
    local: { hit: 0, absent: 0, miss: 0 },
    redis: { hit: 0, absent: 0, miss: 0 },
    postgres: { hit: 0, absent: 0, miss: 0 },
  };

  constructor(registry: Registry, name: string, help: string) {
    const read = function* (counts: LookupCounter['counts']): Generator<[Record<string, string>, number]> {
      for (const tier of TIERS) for (const result of RESULTS) yield [{ tier, result }, counts[tier][result]];
    };
    readAtScrape(registry, Counter, { tier: '', result: '' }, { [name]: [help, () => read(this.counts)] });
  }
}
