import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { checksTimes } from '../support/run-length.ts';
import type { BystanderOptions, BystanderReport } from './bystander-thread.ts';
import { LoadThread } from './load-thread.ts';

/**
 * Well-behaved client beside the hostile ones. Every 10 ms it requests a cached hotel, independent of earlier responses, and
 * checks the response. Times count from when a request was due. It has its own thread, so that hostile clients of the test
 * do not delay it.
 */
export class Bystander {
  readonly #thread: LoadThread<BystanderReport>;

  /** `port` is that of a service, or of a proxy before it. */
  constructor({ port, fullKey }: Pick<BystanderOptions, 'port' | 'fullKey'>, ids: string[]) {
    const options: BystanderOptions = { port, fullKey, ids };
    this.#thread = new LoadThread('./bystander-thread.ts', options);
  }

  /** Sends requests for this time and returns the observations. */
  async watch(ms: number): Promise<BystanderReport> {
    this.start();
    await sleep(ms);
    return this.stop();
  }

  start(): void {
    this.#thread.start();
  }

  /** Resolves when all responses have arrived. */
  stop(): Promise<BystanderReport> {
    return this.#thread.stop();
  }
}

/** Noise of the measurement: the bystander shares two cores with the service and the hostile clients. */
const NOISE_MS = 10;

/** Fails after an unexpected response and, in the long form, if the 99th percentile has more than doubled. */
export function expectUnharmed(quiet: BystanderReport, meanwhile: BystanderReport): void {
  expect(meanwhile.wrong).toEqual([]);
  if (checksTimes) expect(meanwhile.p99Ms).toBeLessThan(Math.max(2 * quiet.p99Ms, NOISE_MS));
}
