import { lifetimeMs } from '../lib/lifetime.ts';
import { MAX_ABSENCE_MS, MAX_AGE_MS } from '../log/bounds.ts';
import type { Principal } from './principal.ts';
import type { LabelledKey } from './redis-key-cache.ts';

/** Maximum number of cached keys and of cached unknown keys, revoked ones included. The oldest are evicted. */
const MAX_KNOWN = 10_000;
const MAX_UNKNOWN = 5_000;

export interface CachedKey {
  /** null: the key is unknown */
  readonly principal: Principal | null;
  readonly sha256: string;
  /** monotonic time in ms at which its lookup began */
  readonly readAtMs: number;
  /** time from which it is read again, whatever is known; that of known keys is spread */
  readonly expiresAtMs: number;
  /** PostgreSQL did not answer the last lookup: until this time the cached rights are used */
  retryAtMs: number;
}

/**
 * Caches the valid and the unknown keys of a worker. The key itself is the index, because its
 * hash would cost more than the rest of a hit. Each table has its own bound, so unknown keys do not evict known ones.
 */
export class CachedKeys {
  readonly #known = new Map<string, CachedKey>();
  readonly #unknown = new Map<string, CachedKey>();
  readonly #keyBySha256 = new Map<string, string>();

  get(key: string): CachedKey | undefined {
    return this.#known.get(key) ?? this.#unknown.get(key);
  }

  /** Caches the result of a lookup that began at `beganMs`. */
  remember(key: string, sha256: string, { principal }: LabelledKey, beganMs: number): CachedKey {
    this.forget(sha256);
    const table = principal === null ? this.#unknown : this.#known;
    const draw = Number.parseInt(sha256.slice(0, 8), 16) / 2 ** 32;
    const expiresAtMs = beganMs + (principal === null ? MAX_ABSENCE_MS : lifetimeMs(MAX_AGE_MS, draw));
    const known = { principal, sha256, readAtMs: beganMs, expiresAtMs, retryAtMs: 0 };
    table.set(key, known);
    this.#keyBySha256.set(sha256, key);
    if (table.size > (principal === null ? MAX_UNKNOWN : MAX_KNOWN))
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
}
