import { monotonicMs } from './clock.ts';
import { withDeadline } from './deadline.ts';
import { WaitQueue } from './wait-queue.ts';

/** Holds the place of a piece of work, or so many units of it, until a promise is resolved, which must not reject. */
export type Hold = (until: Promise<void>, units?: number) => void;

/** Lets pieces of work begin while those that run take less than a number of units. The others wait, and their owners take turns. */
export class Turns {
  readonly waiting: WaitQueue<() => void>;
  /** units of the pieces that run */
  running = 0;
  readonly #maxRunning: number;
  readonly #maxWaitMs: number;

  /** `msPerUnit` and `quantum` are those of `WaitQueue`. `maxWaitMs`: maximum wait for a turn. */
  constructor(maxRunning: number, msPerUnit: number, quantum: number, maxWaitMs = Infinity) {
    this.#maxRunning = maxRunning;
    this.#maxWaitMs = maxWaitMs;
    this.waiting = new WaitQueue(msPerUnit, quantum);
  }

  get mustWait(): boolean {
    return this.running >= this.#maxRunning;
  }

  /**
   * Does `work` when it is its turn, and settles as it does. Each piece leaves its place to the next ones that wait, or does
   * so when a promise settles with which it has called `hold`. Rejects with `DeadlineExceeded` after the maximum wait.
   */
  async run<T>(
    owner: string,
    size: number,
    work: (hold: Hold) => T | Promise<T>,
    sinceMs = monotonicMs(),
    units = 1,
  ): Promise<T> {
    if (this.mustWait) await this.#turn(owner, size, sinceMs, units);
    else this.running += units;
    let heldUnits = 0;
    let held: Promise<void> | undefined;
    try {
      return await work((until, some = units) => {
        held = until;
        heldUnits = some;
      });
    } finally {
      void held?.then(() => this.#leave(heldUnits));
      this.#leave(units - heldUnits);
    }
  }

  async #turn(owner: string, size: number, sinceMs: number, units: number): Promise<void> {
    const turn = new Promise<void>((resolve) => {
      const begin = () => {
        this.running += units;
        resolve();
      };
      this.waiting.append(owner, begin, size, sinceMs);
    });
    if (this.#maxWaitMs === Infinity) return turn;
    await withDeadline(turn, this.#maxWaitMs).catch((error) => {
      void turn.then(() => this.#leave(units));
      throw error;
    });
  }

  #leave(units: number): void {
    this.running -= units;
    while (!this.mustWait && this.waiting.length > 0) this.waiting.shift()!.item();
    this.waiting.measure(monotonicMs());
  }
}
