import { monotonicMs } from './clock.ts';
import { WaitQueue } from './wait-queue.ts';

/** Holds the place of a piece of work until a promise is resolved, which must not reject. */
export type Hold = (until: Promise<void>) => void;

/** Lets a bounded number of pieces of work run at once. The others wait, and their owners take turns. */
export class Turns {
  readonly waiting: WaitQueue<() => void>;
  running = 0;
  readonly #maxRunning: number;

  /** `msPerUnit` and `quantum` are those of `WaitQueue`. */
  constructor(maxRunning: number, msPerUnit: number, quantum: number) {
    this.#maxRunning = maxRunning;
    this.waiting = new WaitQueue(msPerUnit, quantum);
  }

  get mustWait(): boolean {
    return this.running >= this.#maxRunning;
  }

  /**
   * Does `work` when it is its turn, and settles as it does. Each piece hands its place over to the next one that waits, or does
   * so when a promise settles with which it has called `hold`.
   */
  async run<T>(
    owner: string,
    size: number,
    work: (hold: Hold) => T | Promise<T>,
    sinceMs = monotonicMs(),
  ): Promise<T> {
    if (this.mustWait)
      await new Promise<void>((resolve) => this.waiting.append(owner, resolve, size, sinceMs));
    else this.running++;
    let held: Promise<void> | undefined;
    try {
      return await work((until) => {
        held = until;
      });
    } finally {
      if (held) void held.then(() => this.#handOver());
      else this.#handOver();
    }
  }

  #handOver(): void {
    const next = this.waiting.shift();
    if (next) next.item();
    else this.running--;
    this.waiting.measure(monotonicMs());
  }
}
