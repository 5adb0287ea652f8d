import { monotonicMs, onIteration, wallAt, wallMs } from '../lib/clock.ts';
import { lifetimeMs } from '../lib/lifetime.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import { type Freshness, MAX_ABSENCE_MS, MAX_AGE_MS, MAX_AGE_NOT_CURRENT_MS } from '../log/freshness.ts';
import type { Window } from '../log/window.ts';
import type { LookupCounts } from '../observability/metrics.ts';
import type { Origin } from '../postgres/origin.ts';
import { hashOf, isWellFormed } from './key.ts';
import { KEY_QUERY, type KeyRow, type Principal, unlessExpired } from './principal.ts';
import type { LabelledKey, RedisKeyCache } from './redis-key-cache.ts';
import { MAX_EXPECTED, PREFIX_DIGITS, UnknownKeyLimiter } from './unknown-key-limiter.ts';

/** Interval between reloads of a known key while no tier responds. */
const KEY_RETRY_MS = 1_000;
/** Maximum number of cached keys and of cached unknown keys, revoked ones included. The oldest are evicted. */
const MAX_KNOWN = 10_000;
const MAX_UNKNOWN = 5_000;

interface ApiKeyCacheOptions {
  redisCache: RedisKeyCache | undefined;
  origin: Origin;
  /** returns a text that differs for each history and server that is followed */
  prefix: () => string;
  window: Window;
  freshness: Freshness;
  /** whether cached rights of any age may be used after this error of a lookup */
  mayServeAnyAge: (error: unknown) => boolean;
  /** counts of lookups; absent: the key is rejected. A method call for each would cost a cached request 1 % of its time */
  counts: LookupCounts;
  /** number of workers of the instance, which share the lookups of unknown keys */
  workers: number;
}

interface CachedKey {
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
class CachedKeys {
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
    const cached = { principal, sha256, readAtMs: beganMs, expiresAtMs, retryAtMs: 0 };
    table.set(key, cached);
    this.#keyBySha256.set(sha256, key);
    if (table.size > (principal === null ? MAX_UNKNOWN : MAX_KNOWN))
      this.forget(table.values().next().value!.sha256);
    return cached;
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

/**
 * Caches API keys: the worker's memory, then Redis, then PostgreSQL. While these are unavailable, known keys are
 * accepted and unknown keys are rejected with `Unavailable`.
 */
export class ApiKeyCache {
  readonly #options: ApiKeyCacheOptions;
  readonly #freshness: Freshness;
  readonly #counts: LookupCounts;
  readonly #window: Window;
  readonly #unknownKeys: UnknownKeyLimiter;
  readonly #memory = new CachedKeys();
  /** by sha256, as changes are */
  readonly #inFlight = new SingleFlight<Principal | null>(MAX_AGE_NOT_CURRENT_MS);

  constructor(options: ApiKeyCacheOptions) {
    this.#options = options;
    this.#freshness = options.freshness;
    this.#counts = options.counts;
    this.#window = options.window;
    this.#unknownKeys = new UnknownKeyLimiter(options.workers);
  }

  /** Returns the rights that this worker has cached: null for a rejected key, undefined if `load` must be called. */
  find(key: string, nowMs = monotonicMs()): Principal | null | undefined {
    const principal = this.#find(key, nowMs);
    if (principal === undefined) this.#counts.local.miss++;
    else if (principal === null) this.#counts.local.absent++;
    else this.#counts.local.hit++;
    return principal;
  }

  #find(key: string, nowMs: number): Principal | null | undefined {
    const cached = this.#memory.get(key);
    if (cached === undefined) return isWellFormed(key) ? undefined : null;
    const { principal, readAtMs, expiresAtMs, retryAtMs } = cached;
    const isOld = readAtMs < this.#freshness.oldestReadMs(nowMs) || nowMs >= expiresAtMs;
    if (isOld && (nowMs >= retryAtMs || !this.#freshness.mayServeAnyAge(nowMs))) return undefined;
    return unlessExpired(principal, wallAt(nowMs));
  }

  /**
   * Looks up a well-formed key in Redis and PostgreSQL. If that fails, a key that this worker holds keeps its rights while the
   * worker is current. If `mayServeAnyAge`, each known key keeps them. Throws `Unavailable` otherwise, and if too many unknown
   * keys are being looked up.
   */
  async load(key: string): Promise<Principal | null> {
    const sha256 = hashOf(key);
    return this.#inFlight.get(sha256) ?? this.#inFlight.share([sha256], this.#loadOrKeep(key, sha256));
  }

  /**
   * Loads the hashes of existing keys. Without it, and beyond its capacity, the first use of a key counts as an
   * unknown key.
   */
  async preload(): Promise<void> {
    const rows = await this.#options.origin.rows<{ prefix: string }>(
      `select left(encode(key_sha256, 'hex'), ${PREFIX_DIGITS}) as prefix from api_keys
      order by created_at desc limit ${MAX_EXPECTED}`,
      [],
      '',
      'keys',
    );
    for (const { prefix } of rows) this.#unknownKeys.expect(prefix);
  }

  /** Applies a change of the key with this sha256. */
  changed(sha256: string): void {
    this.#unknownKeys.expect(sha256);
    // later callers do not share a lookup that began before the change
    this.#inFlight.forget(sha256);
    this.#memory.forget(sha256);
  }

  /** Drops every key: none is accepted before it is loaded again. */
  clear(): void {
    this.#inFlight.clear();
    this.#memory.clear();
  }

  async #loadOrKeep(key: string, sha256: string): Promise<Principal | null> {
    if (!this.#memory.get(key)?.principal && !this.#unknownKeys.admits(sha256))
      await this.#unknownKeys.wait(sha256);
    try {
      return await this.#load(key, sha256);
    } catch (error) {
      const cached = this.#memory.get(key);
      const held = cached?.principal ? cached : undefined;
      // the log would have named a change of what is held
      const isRight = held !== undefined && this.#freshness.isCurrent();
      if (!isRight && !this.#options.mayServeAnyAge(error)) throw error;
      const known = held ?? (await this.#lastKnown(key, sha256));
      if (!known) throw error;
      const nowMs = monotonicMs();
      known.retryAtMs = nowMs + KEY_RETRY_MS;
      return unlessExpired(known.principal, wallAt(nowMs));
    }
  }

  /** Returns what Redis holds of a key while PostgreSQL is unavailable. Absence in Redis proves nothing. */
  async #lastKnown(key: string, sha256: string): Promise<CachedKey | undefined> {
    const found = await this.#options.redisCache?.read(sha256);
    if (!found?.principal || !this.#window.covers('key', sha256, found.label)) return undefined;
    // of unknown age, so it is looked up again as soon as PostgreSQL answers
    return this.#memory.remember(key, sha256, found, -Infinity);
  }

  async #load(key: string, sha256: string): Promise<Principal | null> {
    const beganMs = monotonicMs();
    const prefix = this.#options.prefix();
    const found = (await this.#readFromRedis(sha256)) ?? (await this.#loadFromPostgres(sha256));
    // another change, or another history, may have become known meanwhile
    if (prefix === this.#options.prefix() && this.#window.covers('key', sha256, found.label))
      this.#memory.remember(key, sha256, found, beganMs);
    return unlessExpired(found.principal, wallMs());
  }

  async #readFromRedis(sha256: string): Promise<LabelledKey | undefined> {
    const { redisCache } = this.#options;
    if (!redisCache || !this.#freshness.isCurrent()) return undefined;
    const read = await redisCache.read(sha256);
    const found = read && this.#window.covers('key', sha256, read.label) ? read : undefined;
    this.#counts.redis[found === undefined ? 'miss' : found.principal === null ? 'absent' : 'hit']++;
    return found;
  }

  async #loadFromPostgres(sha256: string): Promise<LabelledKey> {
    const { origin, redisCache, prefix } = this.#options;
    // the primary: a revoked key must not wait for a replica
    const { label, rows } = await origin.readPrimary<KeyRow>(KEY_QUERY, [sha256], '', 'keys');
    this.#counts.postgres[rows[0] ? 'hit' : 'absent']++;
    const found = { label, principal: rows[0]?.principal ?? null };
    const began = prefix();
    onIteration(() => {
      if (began === prefix()) void redisCache?.fill(sha256, found);
    });
    return found;
  }
}
