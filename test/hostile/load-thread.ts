import { once } from 'node:events';
import { parentPort, Worker } from 'node:worker_threads';
import { closeAtEnd } from '../support/cleanup.ts';

/** Load in a separate thread, so that it neither delays the checks of a test nor is delayed by them. */
export class LoadThread<Result> {
  readonly #thread: Worker;
  /** resolves when the thread has loaded its code */
  readonly ready: Promise<unknown>;

  /** `file` is a module of this folder that calls `serveLoad`. */
  constructor(file: `./${string}-thread.ts`, workerData: object) {
    this.#thread = new Worker(new URL(file, import.meta.url), { workerData });
    this.ready = once(this.#thread, 'message');
    closeAtEnd(file, async () => void (await this.#thread.terminate()));
  }

  start(): void {
    this.#thread.postMessage('start');
  }

  /** Stops the load; resolves with its result when pending requests have ended. */
  async stop(): Promise<Result> {
    await this.ready;
    this.#thread.postMessage('stop');
    const [result] = await once(this.#thread, 'message');
    return result;
  }
}

/** Runs in the thread: starts and stops the load when its `LoadThread` requires it. */
export function serveLoad<Result>(start: () => void, stop: () => Result | Promise<Result>): void {
  parentPort!.on('message', async (message: 'start' | 'stop') => {
    if (message === 'start') start();
    else parentPort!.postMessage(await stop());
  });
  parentPort!.postMessage('ready');
}
