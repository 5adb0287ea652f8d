import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RecentChanges } from '../cache/recent-changes.ts';
import { isOutage, type Rejection, Unavailable } from '../errors.ts';
import { fakeClocks, realClocks } from '../lib/clock.fixture.ts';
import { monotonicMs } from '../lib/clock.ts';
import { ApiKeyCache } from './api-key-cache.ts';
import { hashOf, makeKey } from './key.ts';
import type { KeyRow, VersionedKey } from './key-record.ts';

/** The tiers behind the key cache with their present content; a tier on hold answers after its release. */
class Tiers {
  readonly rows = new Map<string, KeyRow>();
  readonly redis = new Map<string, VersionedKey>();
  redisThere = true;
  rejection: Rejection | undefined;
  feedUp = true;
  requested = { redis: 0, postgres: 0 };
  readonly counts = {
    local: { hit: 0, absent: 0, miss: 0 },
    redis: { hit: 0, absent: 0, miss: 0 },
    postgres: { hit: 0, absent: 0, miss: 0 },
  };
  #held: Promise<void> | undefined;
  prefixes: { prefix: string; version: number }[] = [];
  readonly mayLookUp = vi.fn<() => boolean | Promise<boolean>>(() => true);

  readonly redisCache = {
    read: async (sha256: string) => {
      this.requested.redis++;
      return this.redisThere ? this.redis.get(sha256) : undefined;
    },
    fill: async (keys: [string, VersionedKey][]) => {
      for (const [sha256, key] of keys) this.redis.set(sha256, key);
      return true;
    },
    rememberUnknown: async (sha256: string) => {
      this.redis.set(sha256, { version: 0, record: null });
    },
  };
  readonly postgres = {
    rows: async (_: string, [sha256]: string[]) => {
      this.requested.postgres++;
      if (this.rejection) throw new Unavailable('PostgreSQL did not answer', { rejection: this.rejection });
      const rows = sha256 === undefined ? this.prefixes : [this.rows.get(sha256)].filter(Boolean);
      await this.#held;
      return rows;
    },
  };

  /** Holds answers of PostgreSQL until the returned function is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    return resolve;
  }

  put(key: string, row: Partial<KeyRow> = {}): void {
    const sha256 = hashOf(key);
    this.rows.set(sha256, {
      sha256,
      id: 'key_a',
      scopes: [],
      expires_at_ms: null,
      revoked: false,
      rate_limit_requests: null,
      rate_limit_window_s: null,
      collection_id: null,
      version: 1,
      ...row,
    });
  }
}

const later = (ms: number) => vi.setSystemTime(Date.now() + ms);
const missChanges = () => {
  recent.noteAll();
  apiKeys.markAllStale();
};

let tiers: Tiers;
let recent: RecentChanges;
let apiKeys: ApiKeyCache;
const key = makeKey();

const cacheWith = (redisCache: Tiers['redisCache'] | undefined) =>
  new ApiKeyCache({
    redisCache: redisCache as never,
    postgres: tiers.postgres as never,
    recent,
    isFeedUp: () => tiers.feedUp,
    mayUseOld: isOutage,
    unknownTtlMs: 60_000,
    counts: tiers.counts,
    mayLookUp: tiers.mayLookUp,
  });

beforeEach(() => {
  fakeClocks();
  tiers = new Tiers();
  recent = new RecentChanges();
  apiKeys = cacheWith(tiers.redisCache);
});
afterEach(realClocks);

/** Record of the key before its present version, 5. */
const OUTDATED = {
  version: 4,
  record: { id: 'key_a', scopes: [], expiresAtMs: null, revoked: false, rateLimit: null, collection: null },
};

describe('a key', () => {
  it('is rejected without a lookup if it is malformed or mistyped', () => {
    const slip = key.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
    for (const text of ['', 'hk_', 'x', key.toLowerCase(), `${key}x`, slip])
      expect(apiKeys.find(text)).toBeNull();
  });

  it('is looked up once if it is well-formed', async () => {
    tiers.put(key, { scopes: ['registry'] });
    expect(apiKeys.find(key)).toBeUndefined();
    expect(await apiKeys.load(key)).toMatchObject({ keyId: 'key_a', view: 'full' });
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a', view: 'full' });
    expect(tiers.requested).toEqual({ redis: 1, postgres: 1 });
  });

  it('without the scope sees the narrow view, whatever other scopes it has', async () => {
    tiers.put(key, { scopes: ['registrar', 'Registry'] });
    expect(await apiKeys.load(key)).toMatchObject({ view: 'narrow' });
  });

  it('has each lookup counted by tier and answer', async () => {
    tiers.put(key);
    apiKeys.find(key);
    await apiKeys.load(key);
    apiKeys.find(key);
    apiKeys.find('no key');
    expect(tiers.counts).toEqual({
      local: { hit: 1, absent: 1, miss: 1 },
      redis: { hit: 0, absent: 0, miss: 1 },
      postgres: { hit: 1, absent: 0, miss: 0 },
    });
  });

  it('is looked up once for concurrent requests', async () => {
    tiers.put(key);
    await Promise.all(Array.from({ length: 100 }, () => apiKeys.load(key)));
    expect(tiers.requested).toEqual({ redis: 1, postgres: 1 });
  });

  it('is not read from PostgreSQL if Redis has it', async () => {
    tiers.put(key);
    await apiKeys.load(key);
    expect(await cacheWith(tiers.redisCache).load(key)).toMatchObject({ keyId: 'key_a' });
    expect(tiers.requested).toEqual({ redis: 2, postgres: 1 });
  });

  it('is not taken from Redis if the feed has announced a newer version', async () => {
    tiers.put(key, { version: 5, revoked: true });
    tiers.redis.set(hashOf(key), OUTDATED);
    recent.note(hashOf(key), 5);
    expect(await apiKeys.load(key)).toBeNull();
  });

  it('is not taken from Redis if the table had a newer version when the worker started', async () => {
    tiers.put(key, { version: 5, revoked: true });
    tiers.prefixes = [{ prefix: hashOf(key).slice(0, 12), version: 5 }];
    await apiKeys.preload();
    tiers.redis.set(hashOf(key), OUTDATED);
    expect(await apiKeys.load(key)).toBeNull();
  });

  it('is not read from Redis while the feed is down, nor without Redis', async () => {
    tiers.put(key);
    tiers.feedUp = false;
    await apiKeys.load(key);
    tiers.feedUp = true;
    await cacheWith(undefined).load(key);
    expect(tiers.requested).toEqual({ redis: 0, postgres: 2 });
  });

  it('is rejected without another lookup after it was revoked', async () => {
    tiers.put(key, { revoked: true });
    expect(await apiKeys.load(key)).toBeNull();
    expect(apiKeys.find(key)).toBeNull();
  });

  it('is rejected from the moment it expires, cached or not', async () => {
    // the monotonic clock runs meanwhile
    tiers.put(key, { expires_at_ms: Date.now() + 600_000 });
    expect(await apiKeys.load(key)).not.toBeNull();
    later(400_000);
    expect(apiKeys.find(key)).not.toBeNull();
    later(200_001);
    expect(apiKeys.find(key)).toBeNull();
    expect(await apiKeys.load(key)).toBeNull();
  });
});

describe('an unknown key', () => {
  it('is cached as unknown for a limited time', async () => {
    expect(await apiKeys.load(key)).toBeNull();
    expect(apiKeys.find(key)).toBeNull();
    later(60_001);
    expect(apiKeys.find(key)).toBeUndefined();
  });

  it('never evicts a known key, however many there are', async () => {
    tiers.put(key);
    await apiKeys.load(key);
    for (let i = 0; i < 6_000; i++) await apiKeys.load(`guess ${i}`);
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    // the first of them was evicted: the table is bounded
    tiers.requested.redis = 0;
    await apiKeys.load('guess 0');
    expect(tiers.requested.redis).toBe(1);
  });
});

describe('beyond the limit of unknown keys', () => {
  beforeEach(() => {
    tiers.mayLookUp.mockReturnValue(false);
  });

  it('a further key is neither looked up nor cached as unknown', async () => {
    tiers.put(key);
    await expect(apiKeys.load(key)).rejects.toThrow(/too many lookups/);
    expect(tiers.requested).toEqual({ redis: 0, postgres: 0 });
    tiers.mayLookUp.mockReturnValue(true);
    expect(await apiKeys.load(key)).not.toBeNull();
  });

  it('concurrent requests with one key count once, however long the lookup takes', async () => {
    tiers.mayLookUp.mockResolvedValue(true);
    expect(await Promise.all([apiKeys.load(key), apiKeys.load(key)])).toEqual([null, null]);
    expect(tiers.mayLookUp).toHaveBeenCalledTimes(1);
    expect(tiers.requested.postgres).toBe(1);
    tiers.mayLookUp.mockResolvedValue(false);
    await expect(apiKeys.load(makeKey())).rejects.toThrow(/too many lookups/);
  });

  it('a few keys wait for their lookup, and the others are rejected at once', async () => {
    const waiting = Array.from({ length: 32 }, () => apiKeys.load(makeKey()));
    const one = apiKeys.load(key);
    await expect(one).rejects.toThrow(/too many lookups/);
    expect(tiers.requested.postgres).toBe(0);
    tiers.mayLookUp.mockReturnValue(true);
    expect(await Promise.all(waiting)).toEqual(new Array(32).fill(null));
    expect(tiers.requested.postgres).toBe(32);
  });

  it('a waiting key is looked up when the change feed announces it', async () => {
    tiers.put(key);
    const loading = apiKeys.load(key);
    apiKeys.drop(hashOf(key), 1);
    expect(await loading).not.toBeNull();
  });

  it('a known key is still refreshed', async () => {
    tiers.put(key);
    tiers.mayLookUp.mockReturnValue(true);
    await apiKeys.load(key);
    tiers.mayLookUp.mockReturnValue(false);
    apiKeys.markAllStale();
    expect(await apiKeys.load(key)).not.toBeNull();
  });

  it('a new key that the change feed has announced is still looked up', async () => {
    tiers.put(key);
    apiKeys.drop(hashOf(key), 1);
    expect(await apiKeys.load(key)).not.toBeNull();
  });

  it('a key that was in the table when the worker started is still looked up', async () => {
    tiers.put(key);
    tiers.prefixes = [{ prefix: hashOf(key).slice(0, 12), version: 1 }];
    await apiKeys.preload();
    expect(await apiKeys.load(key)).not.toBeNull();
    await expect(apiKeys.load(makeKey())).rejects.toThrow(/too many lookups/);
  });
});

describe('a change', () => {
  it('causes another lookup of the key', async () => {
    tiers.put(key);
    await apiKeys.load(key);
    tiers.put(key, { revoked: true, version: 2 });
    tiers.redis.clear();
    recent.note(hashOf(key), 2);
    apiKeys.drop(hashOf(key), 1);
    expect(apiKeys.find(key)).toBeUndefined();
    expect(await apiKeys.load(key)).toBeNull();
  });

  it('during a lookup prevents its result from being cached, here and in Redis', async () => {
    tiers.put(key);
    const release = tiers.hold();
    const loading = apiKeys.load(key);
    await expect.poll(() => tiers.requested.postgres).toBe(1);
    recent.note(hashOf(key), 2);
    apiKeys.drop(hashOf(key), 1);
    release();
    await loading;
    expect(apiKeys.find(key)).toBeUndefined();
    expect(tiers.redis.size).toBe(0);
  });

  it('during a lookup is visible to later requests', async () => {
    tiers.put(key);
    const release = tiers.hold();
    const before = apiKeys.load(key);
    await expect.poll(() => tiers.requested.postgres).toBe(1);
    tiers.put(key, { revoked: true, version: 2 });
    recent.note(hashOf(key), 2);
    apiKeys.drop(hashOf(key), 1);
    const after = apiKeys.load(key);
    release();
    expect(await before).not.toBeNull();
    expect(await after).toBeNull();
    expect(apiKeys.find(key)).toBeNull();
  });

  it('that may have been missed causes another lookup of every key, unknown ones too', async () => {
    const guess = makeKey();
    tiers.put(key);
    await apiKeys.load(key);
    await apiKeys.load(guess);
    missChanges();
    expect([apiKeys.find(key), apiKeys.find(guess)]).toEqual([undefined, undefined]);
  });
});

describe('while Redis and PostgreSQL are unavailable', () => {
  beforeEach(async () => {
    tiers.put(key, { expires_at_ms: Date.now() + 60_000 });
    await apiKeys.load(key);
    tiers.redisThere = false;
    tiers.rejection = 'postgres_unavailable';
  });

  it('a known key is still accepted, without a lookup for each request', async () => {
    missChanges();
    tiers.feedUp = false;
    expect(apiKeys.find(key)).toBeUndefined();
    expect(await apiKeys.load(key)).toMatchObject({ keyId: 'key_a' });
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    later(1_001);
    expect(apiKeys.find(key)).toBeUndefined();
  });

  it.each([
    ['that is stale is looked up again after a second, although the feed is back', true],
    ['that only Redis contained is looked up again after a second', false],
  ])('a key %s', async (_, isKnown) => {
    tiers.put(key, { revoked: true, version: 2 });
    missChanges();
    if (!isKnown) {
      apiKeys = cacheWith(tiers.redisCache);
      tiers.redisThere = true;
      tiers.feedUp = false;
    }
    expect(await apiKeys.load(key)).toMatchObject({ keyId: 'key_a' });
    tiers.redisThere = false;
    tiers.feedUp = true;
    tiers.rejection = undefined;
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    later(1_001);
    expect(apiKeys.find(key)).toBeUndefined();
    expect(await apiKeys.load(key)).toBeNull();
    expect(apiKeys.find(key)).toBeNull();
  });

  it('a key that becomes stale while it is accepted without an answer is looked up at once', async () => {
    apiKeys.markAllStale();
    await apiKeys.load(key);
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    apiKeys.markAllStale();
    expect(apiKeys.find(key)).toBeUndefined();
  });

  it('a key of which a change may have been missed is not accepted', async () => {
    missChanges();
    // accepted for a second
    await apiKeys.load(key);
    apiKeys.dropStale(monotonicMs());
    expect(apiKeys.find(key)).toBeUndefined();
    await expect(apiKeys.load(key)).rejects.toThrow(Unavailable);
  });

  it('a key that was loaded after the time whose stale keys are dropped is accepted', async () => {
    const markedAtMs = monotonicMs();
    later(1);
    tiers.rejection = undefined;
    apiKeys.markAllStale();
    await apiKeys.load(key);
    tiers.rejection = 'postgres_unavailable';
    missChanges();
    apiKeys.dropStale(markedAtMs);
    expect(await apiKeys.load(key)).toMatchObject({ keyId: 'key_a' });
  });

  it('an expired key is still rejected', async () => {
    missChanges();
    later(60_001);
    expect(await apiKeys.load(key)).toBeNull();
  });

  it('an unknown key is answered with 503', async () => {
    await expect(apiKeys.load(makeKey())).rejects.toThrow(Unavailable);
  });

  it('a failure is not cached', async () => {
    const other = makeKey();
    await apiKeys.load(other).catch(() => {});
    tiers.rejection = undefined;
    tiers.put(other, { id: 'key_b' });
    expect(await apiKeys.load(other)).toMatchObject({ keyId: 'key_b' });
  });
});

it('a key is refreshed in the background after 30 s, and the cached key is used meanwhile', async () => {
  tiers.put(key);
  await apiKeys.load(key);
  later(30_001);
  tiers.put(key, { revoked: true, version: 2 });
  tiers.redis.clear();
  expect(apiKeys.find(key)).not.toBeNull();
  await expect.poll(() => apiKeys.find(key)).toBeNull();
  expect(tiers.requested.postgres).toBe(2);
});

it('while the feed is silent no cached key is used for longer than 3.3 s', async () => {
  tiers.put(key);
  await apiKeys.load(key);
  tiers.feedUp = false;
  expect(apiKeys.find(key)).not.toBeNull();
  later(3_301);
  expect(apiKeys.find(key)).toBeUndefined();
});

it('while the feed is silent a request shares no lookup that began over 3.3 s ago: the process may have been stopped', async () => {
  tiers.put(key);
  apiKeys = cacheWith(undefined);
  const release = tiers.hold();
  const before = apiKeys.load(key);
  await expect.poll(() => tiers.requested.postgres).toBe(1);
  tiers.put(key, { revoked: true, version: 2 });
  later(3_301);
  tiers.feedUp = false;
  const after = apiKeys.load(key);
  release();
  expect(await before).not.toBeNull();
  expect(await after).toBeNull();
  expect(tiers.requested.postgres).toBe(2);
});

it('the age of a key counts from the beginning of its lookup', async () => {
  tiers.put(key);
  apiKeys = cacheWith(undefined);
  const release = tiers.hold();
  const loaded = apiKeys.load(key);
  later(2_000);
  release();
  await loaded;
  tiers.feedUp = false;
  later(1_301);
  expect(apiKeys.find(key)).toBeUndefined();
});

it.each([
  ['cached', () => {}],
  ['dropped meanwhile', () => apiKeys.drop(hashOf(key), 1)],
])('a key whose lookup takes 300 ms is waited for, if it is %s', async (_, befall) => {
  tiers.put(key);
  apiKeys = cacheWith(undefined);
  await apiKeys.load(key);
  const release = tiers.hold();
  apiKeys.markAllStale();
  tiers.put(key, { revoked: true, version: 2 });
  const loaded = apiKeys.load(key);
  befall();
  setTimeout(release, 300);
  expect(await loaded).toBeNull();
});

it.each<Rejection>(['postgres_timeout', 'postgres_queue'])(
  'a cached key is not accepted if its lookup fails (%s) while PostgreSQL answers others',
  async (rejection) => {
    tiers.put(key);
    await apiKeys.load(key);
    tiers.feedUp = false;
    later(3_301);
    tiers.rejection = rejection;
    await expect(apiKeys.load(key)).rejects.toThrow(Unavailable);
  },
);
