import { monotonicMs, onIteration } from './clock.ts';
import { WaitQueue } from './wait-queue.ts';

/** Maximum time that the work of one event-loop iteration takes; its last piece may exceed it. */
const SLICE_MS = 5;

/**
 * Divides short pieces of work among event-loop iterations, so that many that become ready together do not delay other
 * requests. Owners whose work waits are served in turn.
 */
export class Slices {
  readonly #waiting = new WaitQueue<() => void>(0, 1);
  /** end of the slice of this iteration */
  #untilMs: number | undefined;

  /** Runs the work now or in a later iteration. Settles as it does. */
  run<T>(owner: string, work: () => T): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const settle = () => {
      try {
        resolve(work());
      } catch (error) {
        reject(error);
      }
    };
    const nowMs = monotonicMs();
    if (this.#untilMs === undefined) this.#begin(nowMs);
    if (this.#waiting.length === 0 && nowMs < this.#untilMs!) settle();
    else this.#waiting.append(owner, settle, 1, nowMs);
    return promise;
  }

  #begin(nowMs: number): void {
    this.#untilMs = nowMs + SLICE_MS;
    onIteration(this.#resume);
  }

  readonly #resume = (): void => {
    this.#untilMs = undefined;
    if (this.#waiting.length === 0) return;
    this.#begin(monotonicMs());
    while (this.#waiting.length > 0 && monotonicMs() < this.#untilMs!) this.#waiting.shift()!.item();
  };
}
