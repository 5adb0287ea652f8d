import { build } from 'hdr-histogram-js';
import { KINDS, type Kind, OUTCOMES, type Outcome, type Sample } from './sample.ts';

/** Results of requests; times in ms from when they were due. */
type OutcomeCounts = Record<Outcome, number> & {
  requests: number;
  /** of the responses with any status */
  p50Ms: number;
  p99Ms: number;
  maxMs: number;
  /** maximum latency of a 503; 0 without any */
  unavailableMaxMs: number;
};

/** Counts the samples of these kinds. */
export function countOutcomes(samples: readonly Sample[], kinds: readonly Kind[] = KINDS): OutcomeCounts {
  const histogram = build({ numberOfSignificantValueDigits: 3 });
  const counts = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, 0])) as Record<Outcome, number>;
  let requests = 0;
  let unavailableMaxMs = 0;
  for (const { kind, outcome, tookMs } of samples) {
    if (!kinds.includes(kind)) continue;
    requests++;
    counts[outcome]++;
    histogram.recordValue(Math.max(1, Math.round(1_000 * tookMs)));
    if (outcome === 'unavailable') unavailableMaxMs = Math.max(unavailableMaxMs, tookMs);
  }
  const at = (percentile: number) =>
    requests === 0 ? 0 : histogram.getValueAtPercentile(percentile) / 1_000;
  return { ...counts, requests, unavailableMaxMs, p50Ms: at(50), p99Ms: at(99), maxMs: at(100) };
}

/** Returns the number of requests without a response, or with one outside the contract, to which 503 belongs. */
export const failures = ({ wrong, lost, silent }: OutcomeCounts): number => wrong + lost + silent;
