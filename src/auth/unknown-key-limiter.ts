import { Unavailable } from '../errors.ts';
import { monotonicMs, pause } from '../lib/clock.ts';

/**
 * Maximum number of existing keys whose hash prefixes are held, at about 16 bytes each. They are looked up without a
 * limit.
 */
export const MAX_EXPECTED = 100_000;
/** Hexadecimal digits of a hash prefix: as many as a number can hold. */
export const PREFIX_DIGITS = 12;
/** Maximum number of waiting lookups, their timeout and the interval of their retries. */
const MAX_WAITING = 32;
const WAIT_TIMEOUT_MS = 450;
const ADMIT_AGAIN_MS = 25;
/**
 * Lookups of unknown keys in a window, in all workers of an instance: at most 48 in any second with up to 8 workers, because a
 * second overlaps six windows. Each worker has an equal share, and at least one.
 */
const MAX_LOOKUPS = 8;
const LOOKUP_WINDOW_MS = 200;
/** One shared error: in a flood of unknown keys, stack traces would cost more than all the rest. */
const TOO_MANY_UNKNOWN_KEYS = new Unavailable('too many lookups of unknown keys', 'unknown_key_limit');

/** Limits lookups of unknown keys, so that forged keys do not keep Redis and PostgreSQL busy. */
export class UnknownKeyLimiter {
  /** lookups of this worker in a window */
  readonly #share: number;
  #windowEndsAtMs = -Infinity;
  #left = 0;
  /** hash prefixes of keys that are or were in the table; possibly incomplete */
  readonly #expected = new Set<number>();
  #waiting = 0;

  constructor(workers: number) {
    this.#share = Math.max(1, Math.floor(MAX_LOOKUPS / workers));
  }

  /** Records that the key with this sha256, or with one of this prefix, exists. */
  expect(sha256: string): void {
    if (this.#expected.size < MAX_EXPECTED) this.#expected.add(prefixOf(sha256));
  }

  /** Returns whether the key with this sha256 may be looked up at once. */
  admits(sha256: string): boolean {
    return this.#expected.has(prefixOf(sha256)) || this.mayLookUp();
  }

  /** Counts a lookup of an unknown key in the present window. Returns false if this worker has had its share. */
  mayLookUp(): boolean {
    const nowMs = monotonicMs();
    if (nowMs >= this.#windowEndsAtMs) {
      this.#windowEndsAtMs = nowMs + LOOKUP_WINDOW_MS;
      this.#left = this.#share;
    }
    return this.#left-- > 0;
  }

  /**
   * Waits until the key may be looked up, which may be new and its change announced shortly. Rejects with `Unavailable` if that
   * takes too long, or too many lookups wait.
   */
  async wait(sha256: string): Promise<void> {
    if (this.#waiting >= MAX_WAITING) throw TOO_MANY_UNKNOWN_KEYS;
    this.#waiting++;
    try {
      const untilMs = monotonicMs() + WAIT_TIMEOUT_MS;
      do {
        if (monotonicMs() > untilMs) throw TOO_MANY_UNKNOWN_KEYS;
        await pause(ADMIT_AGAIN_MS);
      } while (!this.admits(sha256));
    } finally {
      this.#waiting--;
    }
  }
}

function prefixOf(sha256: string): number {
  return Number.parseInt(sha256.slice(0, PREFIX_DIGITS), 16);
}
