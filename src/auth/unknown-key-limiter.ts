import { setTimeout as wait } from 'node:timers/promises';
import { Unavailable } from '../errors.ts';

/** Keys that exist, by their heads: these are looked up even while guesses are not. 16 bytes or so each. */
export const MAX_EXPECTED = 100_000;
/** Of a sha256 in hexadecimal digits: as many as a number can hold. */
export const HEAD_DIGITS = 12;
/** Guesses that wait while too many are made, how long each does, and how often it looks. */
const MAX_WAITING = 32;
const WAIT_TIMEOUT_MS = 450;
const RETRY_MS = 25;
/** One for all: in a flood of guesses the stack of each would cost more than all the rest. */
const TOO_MANY_UNKNOWN_KEYS = new Unavailable('too many keys that are not known are asked for', {
  rejection: 'unknown_key_limit',
});

/** Bounds the look-ups of keys of which nobody has heard: who makes keys up must not keep the tiers at work. */
export class UnknownKeyLimiter {
  readonly #mayLookUp: () => boolean | Promise<boolean>;
  /** by heads of sha256s that stand, or stood, in the table, the last version that is known; it need not be complete */
  readonly #expected = new Map<number, number>();
  #waiting = 0;

  /** `mayGuess`: whether one more key may be looked up of which nobody has heard. */
  constructor(mayLookUp: () => boolean | Promise<boolean>) {
    this.#mayLookUp = mayLookUp;
  }

  /** The key with this sha256, or with one that begins so, exists: to look it up is no guess. */
  expect(sha256: string, version: number): void {
    const head = headOf(sha256);
    if (this.#expected.size >= MAX_EXPECTED && !this.#expected.has(head)) return;
    this.#expected.set(head, Math.max(version, this.#expected.get(head) ?? 0));
  }

  /** A version that the key is known to have had; 0 where none is. */
  knownVersion(sha256: string): number {
    return this.#expected.get(headOf(sha256)) ?? 0;
  }

  /**
   * Lets a look-up begin: true at once, or later by the promise, which rejects with `Unavailable` where too many are
   * wanted. A few wait until one more may be looked up, or the change feed tells of them: a key may be that new.
   */
  admit(sha256: string): true | Promise<void> {
    if (this.#isExpected(sha256)) return true;
    const may = this.#mayLookUp();
    if (may === true) return true;
    if (may === false && this.#waiting >= MAX_WAITING) return Promise.reject(TOO_MANY_UNKNOWN_KEYS);
    return this.#admitLater(may, sha256);
  }

  async #admitLater(may: false | Promise<boolean>, sha256: string): Promise<void> {
    if (await may) return;
    if (this.#waiting >= MAX_WAITING) throw TOO_MANY_UNKNOWN_KEYS;
    this.#waiting++;
    try {
      const untilMs = performance.now() + WAIT_TIMEOUT_MS;
      do {
        if (performance.now() > untilMs) throw TOO_MANY_UNKNOWN_KEYS;
        await wait(RETRY_MS);
      } while (!this.#isExpected(sha256) && !(await this.#mayLookUp()));
    } finally {
      this.#waiting--;
    }
  }

  #isExpected(sha256: string): boolean {
    return this.#expected.has(headOf(sha256));
  }
}

function headOf(sha256: string): number {
  return Number.parseInt(sha256.slice(0, HEAD_DIGITS), 16);
}
