import { monotonicMs } from '../lib/clock.ts';
import type { Principal } from './access.ts';

/** Keys and guesses remembered by a worker; past it the oldest go. */
const MAX_KNOWN = 10_000;
const MAX_UNKNOWN = 5_000;

/** What a worker remembers of a key. */
export interface CachedKey {
  /** null: it is refused */
  readonly principal: Principal | null;
  readonly sha256: string;
  /** monotonic, as all ages are */
  checkedAtMs: number;
  /** changes may have been missed: it is asked for again before it is believed */
  stale: boolean;
  /** who must ask had no answer: until then it is believed without */
  retryAtMs: number;
}

/**
 * A worker's memory of keys that exist, revoked ones too, and of some that do not. By the key itself: a request brings
 * the key, and hashing it costs more than all the rest of a hit. Each table is bounded for itself, so no guesses push
 * out what is known.
 */
export class KnownKeys {
  readonly #known = new Map<string, CachedKey>();
  readonly #unknown = new Map<string, CachedKey>();
  readonly #keyBySha256 = new Map<string, string>();

  get(key: string): CachedKey | undefined {
    return this.#known.get(key);
  }

  /** What is remembered of a key that nobody knew. */
  getUnknown(key: string): CachedKey | undefined {
    return this.#unknown.get(key);
  }

  /** Remembers what was found just now; `access` undefined: nobody knows the key. */
  remember(key: string, sha256: string, principal: Principal | null | undefined): CachedKey {
    this.forget(sha256);
    const table = principal === undefined ? this.#unknown : this.#known;
    const known = {
      principal: principal ?? null,
      sha256,
      checkedAtMs: monotonicMs(),
      stale: false,
      retryAtMs: 0,
    };
    table.set(key, known);
    this.#keyBySha256.set(sha256, key);
    if (table.size > (principal === undefined ? MAX_UNKNOWN : MAX_KNOWN))
      this.forget(table.values().next().value!.sha256);
    return known;
  }

  forget(sha256: string): void {
    const key = this.#keyBySha256.get(sha256);
    if (key === undefined) return;
    this.#known.delete(key);
    this.#unknown.delete(key);
    this.#keyBySha256.delete(sha256);
  }

  clear(): void {
    this.#known.clear();
    this.#unknown.clear();
    this.#keyBySha256.clear();
  }

  /** Any key may have changed. */
  markAllStale(): void {
    for (const table of [this.#known, this.#unknown])
      for (const known of table.values()) {
        known.stale = true;
        known.retryAtMs = 0;
      }
  }
}
