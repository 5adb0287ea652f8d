import { FEED_DOWN_FRESH_MS } from '../cache/local-cache.ts';
import type { RecentChanges } from '../cache/recent-changes.ts';
import { monotonicMs, wallAt } from '../lib/clock.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import type { LookupCounter } from '../observability/lookup-counter.ts';
import type { Postgres } from '../postgres/client.ts';
import { hashOf, isWellFormed } from './key.ts';
import { KEY_COLUMNS, type KeyRow, keyOf, type VersionedKey } from './key-record.ts';
import { type CachedKey, KnownKeys } from './known-keys.ts';
import { type Principal, principalOf, unlessExpired } from './principal.ts';
import type { RedisKeyCache } from './redis-key-cache.ts';
import { MAX_EXPECTED, PREFIX_DIGITS, UnknownKeyLimiter } from './unknown-key-limiter.ts';

/**
 * Age after which a key is reloaded in the background. Changes arrive within a second; this bounds the effect of a
 * lost one.
 */
const FRESH_MS = 30_000;
/** Interval between reloads of a known key while no tier responds. */
const RETRY_MS = 1_000;

interface ApiKeyCacheOptions {
  redisCache: RedisKeyCache | undefined;
  postgres: Postgres;
  recent: RecentChanges;
  isFeedUp: () => boolean;
  /**
   * whether the cached rights of keys may be used after this error of a lookup: if PostgreSQL answers other queries, or
   * did while the feed was silent, they may be revoked
   */
  mayUseOld: (error: unknown) => boolean;
  unknownTtlMs: number;
  /** counts of lookups; absent: the key is rejected. A method call for each would cost a cached request 1 % of its time */
  counts: LookupCounter['counts'];
  /** whether one more key that is not known may be looked up */
  mayLookUp: () => boolean | Promise<boolean>;
}

/** What a lookup found, and the time before it began. */
interface Loaded {
  principal: Principal | null;
  beganMs: number;
}

/**
 * Caches API keys: the worker's memory, then Redis, then PostgreSQL. While these are unavailable, known keys are
 * accepted and unknown keys are rejected with `Unavailable`.
 */
export class ApiKeyCache {
  readonly #options: ApiKeyCacheOptions;
  readonly #isFeedUp: () => boolean;
  readonly #counts: ApiKeyCacheOptions['counts'];
  readonly #recent: RecentChanges;
  readonly #unknownKeys: UnknownKeyLimiter;
  readonly #memory = new KnownKeys();
  /** by sha256, as changes are */
  readonly #inFlight = new SingleFlight<Loaded>();

  constructor(options: ApiKeyCacheOptions) {
    this.#options = options;
    this.#isFeedUp = options.isFeedUp;
    this.#counts = options.counts;
    this.#recent = options.recent;
    this.#unknownKeys = new UnknownKeyLimiter(options.mayLookUp);
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
    const known = this.#memory.get(key);
    if (known !== undefined) {
      const ageMs = nowMs - known.checkedAtMs;
      if (known.stale || (ageMs > FEED_DOWN_FRESH_MS && !this.#isFeedUp())) {
        if (nowMs >= known.retryAtMs) return undefined;
      } else if (ageMs > FRESH_MS) {
        known.checkedAtMs = nowMs - FRESH_MS + RETRY_MS;
        this.load(key).catch(() => {});
      }
      return unlessExpired(known.principal, wallAt(nowMs));
    }
    const unknown = this.#memory.getUnknown(key);
    if (unknown !== undefined && !unknown.stale) {
      const ageMs = nowMs - unknown.checkedAtMs;
      if (ageMs < (this.#isFeedUp() ? this.#options.unknownTtlMs : FEED_DOWN_FRESH_MS)) return null;
    }
    return isWellFormed(key) ? undefined : null;
  }

  /**
   * Looks up a well-formed key in Redis and PostgreSQL. While both are unavailable a known key keeps its cached rights, if
   * `mayUseOld`. Throws `Unavailable` for other keys then, if the lookup is late while PostgreSQL answers others, and if
   * too many unknown keys are being looked up.
   */
  async load(key: string): Promise<Principal | null> {
    const joinedAtMs = monotonicMs();
    const { principal, beganMs } = await this.#join(key);
    // as old as a cached key that is not used any more: this process was stopped during the lookup
    if (!this.#isFeedUp() && beganMs < joinedAtMs - FEED_DOWN_FRESH_MS) return this.load(key);
    return principal;
  }

  /** Joins the lookup in flight, or begins one. */
  #join(key: string): Promise<Loaded> {
    const sha256 = hashOf(key);
    const inFlight = this.#inFlight.get(sha256);
    if (inFlight) return inFlight;
    const admitted = this.#memory.get(key) !== undefined || this.#unknownKeys.admit(sha256);
    const loading =
      admitted === true ? this.#loadOrKeep(key, sha256) : admitted.then(() => this.#loadOrKeep(key, sha256));
    return this.#inFlight.share([sha256], loading);
  }

  /**
   * Loads the hashes of existing keys. Without it, and beyond its capacity, the first use of a key counts as an
   * unknown key.
   */
  async preload(): Promise<void> {
    const rows = await this.#options.postgres.rows<{ prefix: string; version: number }>(
      `select left(encode(key_sha256, 'hex'), ${PREFIX_DIGITS}) as prefix, version::float8 from api_keys
      order by version desc limit ${MAX_EXPECTED}`,
      [],
    );
    for (const { prefix, version } of rows) this.#unknownKeys.expect(prefix, version);
  }

  drop(sha256: string, version: number): void {
    this.#unknownKeys.expect(sha256, version);
    // later callers do not share a lookup that began before the change
    this.#inFlight.forget(sha256);
    this.#memory.forget(sha256);
  }

  /** Marks every key as possibly changed: each is reloaded at its next use. */
  markAllStale(): void {
    this.#inFlight.clear();
    this.#memory.markAllStale();
  }

  /** Makes the rights of keys that were marked at this time, or before, unusable, also while PostgreSQL is unavailable. */
  dropStale(markedAtMs: number): void {
    this.#memory.dropStale(markedAtMs);
  }

  /** Drops every key: none is accepted before it is loaded again. */
  clear(): void {
    this.#inFlight.clear();
    this.#memory.clear();
  }

  async #loadOrKeep(key: string, sha256: string): Promise<Loaded> {
    try {
      return await this.#load(key, sha256);
    } catch (error) {
      if (!this.#options.mayUseOld(error)) throw error;
      const cached = this.#memory.get(key);
      const known = cached?.usableInOutage ? cached : await this.#lastKnown(key, sha256);
      if (!known) throw error;
      // the key remains stale: the feed does not repeat a change that it lost
      const nowMs = monotonicMs();
      known.retryAtMs = nowMs + RETRY_MS;
      return { principal: unlessExpired(known.principal, wallAt(nowMs)), beganMs: nowMs };
    }
  }

  /** Returns what Redis holds of a key while PostgreSQL is unavailable. Absence in Redis proves nothing. */
  async #lastKnown(key: string, sha256: string): Promise<CachedKey | undefined> {
    const began = this.#recent.position;
    const found = await this.#options.redisCache?.read(sha256);
    if (!found?.record || this.#isOutdated(sha256, found)) return undefined;
    if (!this.#recent.mayStore(sha256, began)) return undefined;
    const known = this.#memory.remember(key, sha256, principalOf(found.record), monotonicMs());
    // Redis may have lost a change unnoticed
    known.stale = true;
    return known;
  }

  async #load(key: string, sha256: string): Promise<Loaded> {
    const began = this.#recent.position;
    const beganMs = monotonicMs();
    let found: VersionedKey | undefined;
    // after a recent change Redis may hold a version above the table's, until the invalidator replaces it
    const { redisCache } = this.#options;
    if (redisCache && this.#isFeedUp() && !this.#recent.hasChange(sha256)) {
      found = await redisCache.read(sha256);
      this.#counts.redis[found === undefined ? 'miss' : found.record === null ? 'absent' : 'hit']++;
    }
    if (!found || this.#isOutdated(sha256, found)) found = await this.#loadFromPostgres(sha256, began);

    const principal = found.record === null ? undefined : principalOf(found.record);
    if (this.#recent.mayStore(sha256, began)) this.#memory.remember(key, sha256, principal, beganMs);
    return { principal: unlessExpired(principal ?? null, wallAt(monotonicMs())), beganMs };
  }

  /**
   * Returns true if a newer version was announced or is known from the table. A writer of Redis may restore an older
   * version.
   */
  #isOutdated(sha256: string, { version }: VersionedKey): boolean {
    return version < this.#unknownKeys.knownVersion(sha256) || this.#recent.isOutdated(sha256, version);
  }

  async #loadFromPostgres(sha256: string, began: number): Promise<VersionedKey> {
    const { postgres, redisCache } = this.#options;
    const rows = await postgres.rows<KeyRow>(
      `select ${KEY_COLUMNS} from api_keys where key_sha256 = decode($1, 'hex')`,
      [sha256],
    );
    this.#counts.postgres[rows[0] ? 'hit' : 'absent']++;
    const found = rows[0] ? keyOf(rows[0]) : { version: 0, record: null };
    if (this.#recent.mayStore(sha256, began)) {
      if (found.record) redisCache?.fill([[sha256, found]]);
      else redisCache?.rememberUnknown(sha256);
    }
    return found;
  }
}
