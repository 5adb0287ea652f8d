import { Unavailable } from '../errors.ts';
import { clearTimer, monotonicMs, setTimer } from '../lib/clock.ts';
import { WaitQueue } from '../lib/wait-queue.ts';

/** Sets the bytes that a lookup which has begun may still read. */
type Hold = (bytes: number) => void;

/** Lets lookups begin while those that have begun may read less than a number of bytes. The others wait, and their owners take turns. */
export class LookupQueue {
  readonly #maxBytes: number;
  readonly #maxWaitMs: number;
  /** what begins a lookup, unless it has waited too long */
  readonly #waiting: WaitQueue<() => void>;
  /** expected bytes of what those that have begun may still read */
  #begunBytes = 0;

  /** `quantum` is that of `WaitQueue`, in bytes. Without `maxWaitMs`, lookups wait as long as it takes. */
  constructor(maxBytes: number, quantum: number, maxWaitMs = Infinity) {
    this.#maxBytes = maxBytes;
    this.#maxWaitMs = maxWaitMs;
    this.#waiting = new WaitQueue(1, quantum);
  }

  get length(): number {
    return this.#waiting.length;
  }

  /** Returns true if a new lookup would begin at once. */
  get hasRoom(): boolean {
    return this.#waiting.length === 0 && this.#begunBytes < this.#maxBytes;
  }

  /**
   * Resolves when it is the turn of a lookup that reads this many bytes, with a function that sets what it may still read: 0
   * when it is over. Rejects with `Unavailable` after the maximum wait.
   */
  begin(owner: string, bytes: number): Promise<Hold> {
    const { promise, resolve, reject } = Promise.withResolvers<Hold>();
    let isExpired = false;
    const expire = () => {
      isExpired = true;
      reject(new Unavailable('more large hotels wait than can be read in time', { rejection: 'overload' }));
    };
    const expiry = this.#maxWaitMs < Infinity ? setTimer(expire, this.#maxWaitMs) : undefined;
    const begin = () => {
      if (isExpired) return;
      clearTimer(expiry);
      this.#begunBytes += bytes;
      let held = bytes;
      resolve((left) => {
        this.#begunBytes += left - held;
        held = left;
        this.#beginNext();
      });
    };
    this.#waiting.append(owner, begin, bytes, monotonicMs());
    this.#beginNext();
    return promise;
  }

  #beginNext(): void {
    while (this.#waiting.length > 0 && this.#begunBytes < this.#maxBytes) this.#waiting.shift()!.item();
  }
}
