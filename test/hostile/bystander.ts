import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { expect } from 'vitest';
import { judgesTimes } from '../support/form.ts';
import { closeAtEnd } from '../support/left-behind.ts';
import type { Around, Experience } from './bystander-thread.ts';

/**
 * Well-behaved client beside the hostile ones. Every 10 ms it requests a cached hotel, independent of earlier responses, and
 * checks the response. Times count from when a request was due. It has its own thread, so that hostile clients of the test
 * do not delay it.
 */
export class Bystander {
  readonly #thread: Worker;

  /** `port` is that of a service, or of a proxy before it. */
  constructor({ port, fullKey }: Pick<Around, 'port' | 'fullKey'>, ids: string[]) {
    const workerData: Around = { port, fullKey, ids };
    this.#thread = new Worker(new URL('./bystander-thread.ts', import.meta.url), { workerData });
    closeAtEnd('a bystander', async () => void (await this.#thread.terminate()));
  }

  /** Sends requests for this time and returns the observations. */
  async watch(ms: number): Promise<Experience> {
    this.start();
    await sleep(ms);
    return this.stop();
  }

  start(): void {
    this.#thread.postMessage('start');
  }

  /** Resolves when all responses have arrived. */
  async stop(): Promise<Experience> {
    this.#thread.postMessage('stop');
    const [experience] = await once(this.#thread, 'message');
    return experience;
  }
}

/** Noise of the measurement: the bystander shares two cores with the service and the hostile clients. */
const NOISE_MS = 10;

/** Fails after an unexpected response and, in the long form, if the 99th percentile has more than doubled. */
export function expectUnharmed(quiet: Experience, meanwhile: Experience): void {
  expect(meanwhile.wrong).toEqual([]);
  if (judgesTimes) expect(meanwhile.p99Ms).toBeLessThan(Math.max(2 * quiet.p99Ms, NOISE_MS));
}
