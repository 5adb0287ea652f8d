import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { expect } from 'vitest';
import { judgesTimes } from '../support/form.ts';
import { closeAtEnd } from '../support/left-behind.ts';
import type { Around, Experience } from './bystander-thread.ts';

/**
 * A client of good will beside the hostile ones: every 10 ms it asks for a hotel that is cached, whether or not it
 * was answered before, and checks the answer. Times count from when a request was due. It has a thread of its own, so
 * that it is not late because the hostile clients are busy.
 */
export class Bystander {
  readonly #thread: Worker;

  /** `port`: of a service, or of a proxy before it. */
  constructor({ port, fullKey }: Pick<Around, 'port' | 'fullKey'>, ids: string[]) {
    const workerData: Around = { port, fullKey, ids };
    this.#thread = new Worker(new URL('./bystander-thread.ts', import.meta.url), { workerData });
    closeAtEnd('a bystander', async () => void (await this.#thread.terminate()));
  }

  /** Asks for so long and says what it met. */
  async watch(ms: number): Promise<Experience> {
    this.start();
    await sleep(ms);
    return this.stop();
  }

  start(): void {
    this.#thread.postMessage('start');
  }

  /** Resolves when all that was asked is answered. */
  async stop(): Promise<Experience> {
    this.#thread.postMessage('stop');
    const [experience] = await once(this.#thread, 'message');
    return experience;
  }
}

/** Times below this say nothing of the service: the bystander shares two cores with it and with the hostile clients. */
const NOISE_MS = 10;

/** Fails where an answer to others was wrong and, in the long form, where the 99th percentile has more than doubled. */
export function expectUnharmed(quiet: Experience, meanwhile: Experience): void {
  expect(meanwhile.wrong).toEqual([]);
  if (judgesTimes) expect(meanwhile.p99Ms).toBeLessThan(Math.max(2 * quiet.p99Ms, NOISE_MS));
}
