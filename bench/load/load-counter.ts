import { build } from 'hdr-histogram-js';
import type { LoadResult } from './call.ts';

const MINUTE_US = 60_000_000;
const FAULTS_SHOWN = 3;

/** Counts responses and records latencies in an HDR histogram: microseconds, three digits, up to a minute. */
export class LoadCounter {
  readonly #latencies = build({
    lowestDiscernibleValue: 1,
    highestTrackableValue: MINUTE_US,
    numberOfSignificantValueDigits: 3,
    bitBucketSize: 64,
  });
  #faults: string[] = [];
  #faultCount = 0;
  #requests = 0;

  add(latencyMs: number, fault: string | undefined): void {
    this.#requests++;
    if (fault === undefined) {
      this.#latencies.recordValue(Math.min(MINUTE_US, Math.max(1, Math.round(latencyMs * 1000))));
      return;
    }
    if (this.#faultCount++ < FAULTS_SHOWN) this.#faults.push(fault);
  }

  get faultCount(): number {
    return this.#faultCount;
  }

  result(seconds: number): LoadResult {
    return {
      requests: this.#requests,
      seconds,
      p50Us: this.#latencies.getValueAtPercentile(50),
      p99Us: this.#latencies.getValueAtPercentile(99),
      faults: this.#faults,
      faultCount: this.#faultCount,
    };
  }
}
