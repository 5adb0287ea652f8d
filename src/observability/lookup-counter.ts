import { Counter, type Registry } from 'prom-client';
import { readAtScrape } from './read-at-scrape.ts';

const TIERS = ['local', 'redis', 'postgres'] as const;
const RESULTS = ['hit', 'absent', 'miss'] as const;

type Tier = (typeof TIERS)[number];
/** Results of a lookup in a tier: found, known to be absent, unknown. */
type Result = (typeof RESULTS)[number];

/** Lookups by tier and result. */
export type LookupCounts = Record<Tier, Record<Result, number>>;

/**
 * Returns the counts of a new metric. They are plain fields, because a call with two labels costs a cached request more than its
 * lookup. All nine series are exported from the start.
 */
export function countLookups(registry: Registry, name: string, help: string): LookupCounts {
  const zeros = () => ({ hit: 0, absent: 0, miss: 0 });
  const counts: LookupCounts = { local: zeros(), redis: zeros(), postgres: zeros() };
  const read = function* (): Generator<[Record<string, string>, number]> {
    for (const tier of TIERS) for (const result of RESULTS) yield [{ tier, result }, counts[tier][result]];
  };
  readAtScrape(registry, Counter, { tier: '', result: '' }, { [name]: [help, read] });
  return counts;
}
