import { clearTimer, monotonicMs, setTimer, type Timer } from '../lib/clock.ts';
import { WaitQueue } from '../lib/wait-queue.ts';

/** Sets the bytes that a lookup which has begun may still read. */
type Hold = (bytes: number) => void;

interface QueuedLookup {
  lookUp: (hold: Hold) => Promise<void>;
  expiry: Timer | undefined;
  isExpired: boolean;
}

/** Lets lookups begin while those that have begun may read less than a number of bytes. The others wait, and their owners take turns. */
export class LookupQueue {
  readonly #maxBytes: number;
  readonly #maxWaitMs: number;
  readonly #waiting: WaitQueue<QueuedLookup>;
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

  /** Returns the bytes of the lookups before a new one of this owner; other owners count by their shares. */
  bytesBefore(owner: string): number {
    return this.#waiting.sizeBefore(owner);
  }

  /**
   * Begins a lookup of this many bytes now or later. `lookUp` holds all of them until it calls `hold` or is over, and does not
   * reject. `onExpiry` is called instead after the maximum wait.
   */
  append(owner: string, bytes: number, lookUp: QueuedLookup['lookUp'], onExpiry: () => void): void {
    const item: QueuedLookup = { lookUp, expiry: undefined, isExpired: false };
    if (this.#maxWaitMs < Infinity)
      item.expiry = setTimer(() => {
        item.isExpired = true;
        onExpiry();
      }, this.#maxWaitMs);
    this.#waiting.append(owner, item, bytes, monotonicMs());
    this.#beginNext();
  }

  #beginNext(): void {
    while (this.#waiting.length > 0 && this.#begunBytes < this.#maxBytes) {
      const { item, size } = this.#waiting.shift()!;
      if (item.isExpired) continue;
      clearTimer(item.expiry);
      this.#begunBytes += size;
      let held = size;
      const hold = (bytes: number) => {
        this.#begunBytes += bytes - held;
        held = bytes;
        this.#beginNext();
      };
      void item.lookUp(hold).then(() => hold(0));
    }
  }
}
