import type { RecentChanges } from '../cache/recent-changes.ts';
import { Unavailable } from '../errors.ts';
import { monotonicMs, wallAt } from '../lib/clock.ts';
import { DeadlineExceeded, withDeadline } from '../lib/deadline.ts';
import { SingleFlight } from '../lib/single-flight.ts';
import type { Postgres } from '../postgres/client.ts';
import { type Principal, principalOf, unlessExpired } from './access.ts';
import { hashOf, isWellFormed } from './key.ts';
import { KEY_COLUMNS, type KeyRow, keyOf, type VersionedKey } from './key-record.ts';
import { type CachedKey, KnownKeys } from './known-keys.ts';
import type { RedisKeyCache } from './redis-key-cache.ts';
import { HEAD_DIGITS, MAX_EXPECTED, UnknownKeyLimiter } from './unknown-key-limiter.ts';

/** How often a tier that was asked for a key said what; absent: the key is refused. */
export interface LookupCounts {
  hit: number;
  absent: number;
  miss: number;
}

/** Changes are heard of within a second; this only bounds what a lost one would do: then it is asked for in the background. */
const FRESH_MS = 30_000;
/** While the change feed is silent nothing older than this is believed without asking. */
const FEED_DOWN_FRESH_MS = 5_000;
/** How long who brings a key that is known waits for news of it; what is said later counts from then on. */
const REVALIDATION_TIMEOUT_MS = 150;
/** While nobody can be asked, a key that is known is asked for this often. */
const RETRY_MS = 1_000;

/**
 * The API keys as a worker knows them: its own memory, then Redis, then PostgreSQL. While these are away a key
 * that is known goes on being accepted, one that is not cannot be judged (`Unavailable`).
 */
export class ApiKeyCache {
  readonly #redis: RedisKeyCache | undefined;
  readonly #postgres: Postgres;
  readonly #recent: RecentChanges;
  readonly #isFeedUp: () => boolean;
  readonly #counts: Record<'local' | 'redis' | 'postgres', LookupCounts>;
  readonly #unknownTtlMs: number;
  readonly #unknownKeys: UnknownKeyLimiter;
  readonly #memory = new KnownKeys();
  /** by sha256, as changes are */
  readonly #inFlight = new SingleFlight<Principal | null>();

  constructor(options: {
    redisCache: RedisKeyCache | undefined;
    postgres: Postgres;
    recent: RecentChanges;
    isFeedUp: () => boolean;
    unknownTtlMs: number;
    /** what is counted here: a call for each would cost a request from the local cache a hundredth of its time */
    counts: Record<'local' | 'redis' | 'postgres', LookupCounts>;
    /** whether one more key may be looked up of which nobody has heard */
    mayLookUp: () => boolean | Promise<boolean>;
  }) {
    this.#redis = options.redisCache;
    this.#postgres = options.postgres;
    this.#recent = options.recent;
    this.#isFeedUp = options.isFeedUp;
    this.#unknownTtlMs = options.unknownTtlMs;
    this.#counts = options.counts;
    this.#unknownKeys = new UnknownKeyLimiter(options.mayLookUp);
  }

  /** What the key may do as far as this worker knows: null is refused, undefined must be asked for with `load`. */
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
      if (ageMs < (this.#isFeedUp() ? this.#unknownTtlMs : FEED_DOWN_FRESH_MS)) return null;
    }
    return isWellFormed(key) ? undefined : null;
  }

  /**
   * Asks Redis and PostgreSQL for a well-formed key. Throws `Unavailable` when neither can tell and the key
   * is not known; one that is known goes on being judged by what is known of it. Throws it too,
   * without having asked, for one of which nothing was ever heard while too many such are asked for.
   */
  load(key: string): Promise<Principal | null> {
    const sha256 = hashOf(key);
    const inFlight = this.#inFlight.get(sha256);
    if (inFlight) return inFlight;
    const admitted = this.#memory.get(key) !== undefined || this.#unknownKeys.admit(sha256);
    const loading =
      admitted === true ? this.#loadOrKeep(key, sha256) : admitted.then(() => this.#loadOrKeep(key, sha256));
    return this.#inFlight.share([sha256], loading);
  }

  /** Learns which keys exist. Until then, and of more than it can hold, a key's first use counts as a guess. */
  async preload(): Promise<void> {
    const rows = await this.#postgres.query((sql) =>
      sql.unsafe<{ head: string; version: number }[]>(
        `select left(encode(key_sha256, 'hex'), ${HEAD_DIGITS}) as head, version::float8 from api_keys
        order by version desc limit ${MAX_EXPECTED}`,
      ),
    );
    for (const { head, version } of rows) this.#unknownKeys.expect(head, version);
  }

  /** The key with this sha256 has changed. */
  drop(sha256: string, version: number): void {
    this.#unknownKeys.expect(sha256, version);
    // also of a key that is only being looked up: who asks from now on does not share that look-up
    this.#inFlight.forget(sha256);
    this.#memory.forget(sha256);
  }

  /** Any key may have changed. What is known is asked for again at its next use. */
  markAllStale(): void {
    this.#inFlight.clear();
    this.#memory.markAllStale();
  }

  /** No key is what it was: none is accepted before it is found anew. */
  clear(): void {
    this.#inFlight.clear();
    this.#memory.clear();
  }

  async #loadOrKeep(key: string, sha256: string): Promise<Principal | null> {
    const loading = this.#load(key, sha256);
    try {
      return await (this.#memory.get(key) ? withDeadline(loading, REVALIDATION_TIMEOUT_MS) : loading);
    } catch (error) {
      if (!(error instanceof Unavailable || error instanceof DeadlineExceeded)) throw error;
      const known = this.#memory.get(key) ?? (await this.#lastKnown(key, sha256));
      // it was dropped meanwhile: then what is known no longer counts
      if (!known) return loading;
      // the doubt stays: a change that was missed is not heard of again when the feed is back
      const nowMs = monotonicMs();
      known.retryAtMs = nowMs + RETRY_MS;
      return unlessExpired(known.principal, wallAt(nowMs));
    }
  }

  /** What Redis holds of a key, for when PostgreSQL cannot be asked; that it is unknown there says nothing. */
  async #lastKnown(key: string, sha256: string): Promise<CachedKey | undefined> {
    const began = this.#recent.position;
    const found = await this.#redis?.read(sha256);
    if (!found?.record || this.#isOutdated(sha256, found)) return undefined;
    if (!this.#recent.mayStore(sha256, began)) return undefined;
    const known = this.#memory.remember(key, sha256, principalOf(found.record));
    // Redis may have lost a change, and nobody could say so
    known.stale = true;
    return known;
  }

  async #load(key: string, sha256: string): Promise<Principal | null> {
    const began = this.#recent.position;
    let found: VersionedKey | undefined;
    // of a key that changed lately Redis may keep a version above the table's, until the invalidator replaces it
    if (this.#redis && this.#isFeedUp() && !this.#recent.hasChange(sha256)) {
      found = await this.#redis.read(sha256);
      this.#counts.redis[found === undefined ? 'miss' : found.record === null ? 'absent' : 'hit']++;
    }
    if (!found || this.#isOutdated(sha256, found)) found = await this.#loadFromPostgres(sha256, began);

    const principal = found.record === null ? undefined : principalOf(found.record);
    if (this.#recent.mayStore(sha256, began)) this.#memory.remember(key, sha256, principal);
    return unlessExpired(principal ?? null, wallAt(monotonicMs()));
  }

  /** True where a newer version was heard of, or known from the table: a writer of Redis may put back an older one. */
  #isOutdated(sha256: string, { version }: VersionedKey): boolean {
    return version < this.#unknownKeys.knownVersion(sha256) || this.#recent.isOutdated(sha256, version);
  }

  async #loadFromPostgres(sha256: string, began: number): Promise<VersionedKey> {
    const rows = await this.#postgres.query((sql) =>
      sql.unsafe<KeyRow[]>(
        `select ${KEY_COLUMNS} from api_keys where key_sha256 = decode($1, 'hex')`,
        [sha256],
        {
          prepare: true,
        },
      ),
    );
    this.#counts.postgres[rows[0] ? 'hit' : 'absent']++;
    const found = rows[0] ? keyOf(rows[0]) : { version: 0, record: null };
    if (this.#recent.mayStore(sha256, began)) {
      if (found.record) this.#redis?.fill([[sha256, found]]);
      else this.#redis?.rememberUnknown(sha256);
    }
    return found;
  }
}
