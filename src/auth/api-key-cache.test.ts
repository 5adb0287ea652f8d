import { afterAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { isOutage, type Rejection, Unavailable } from '../errors.ts';
import { fakeTimers } from '../lib/clock.fixture.ts';
import { monotonicMs, wallMs } from '../lib/clock.ts';
import { Freshness, MAX_AGE_NOT_CURRENT_MS } from '../log/freshness.ts';
import { Window } from '../log/window.ts';
import { ApiKeyCache } from './api-key-cache.ts';
import { hashOf, makeKey } from './key.ts';
import type { KeyRow } from './principal.ts';
import type { LabelledKey } from './redis-key-cache.ts';
import { UnknownKeyLimiter } from './unknown-key-limiter.ts';

/** The tiers behind the key cache with their present content; PostgreSQL answers after `release` if it is on hold. */
class Tiers {
  readonly rows = new Map<string, KeyRow>();
  /** position of the log at which PostgreSQL is read */
  position = 10;
  prefix = 'first';
  readonly redis = new Map<string, LabelledKey>();
  redisThere = true;
  rejection: Rejection | undefined;
  readonly counts = {
    local: { hit: 0, absent: 0, miss: 0 },
    redis: { hit: 0, absent: 0, miss: 0 },
    postgres: { hit: 0, absent: 0, miss: 0 },
  };
  #held: Promise<void> | undefined;
  release = () => {};
  prefixes: { prefix: string }[] = [];
  readonly mayLookUp = vi.spyOn(UnknownKeyLimiter.prototype, 'mayLookUp').mockReturnValue(true);

  readonly redisCache = {
    read: async (sha256: string) => (this.redisThere ? this.redis.get(sha256) : undefined),
    fill: async (sha256: string, key: LabelledKey) => void this.redis.set(sha256, key),
  };
  readonly origin = {
    readPrimary: async (_: string, [sha256]: string[]) => {
      if (this.rejection) throw new Unavailable('PostgreSQL did not answer', this.rejection);
      const { position: label } = this;
      const rows = [this.rows.get(sha256!)].filter(Boolean);
      await this.#held;
      return { label, rows };
    },
    rows: async () => this.prefixes,
  };

  /** Returns how many lookups reached a tier. */
  asked(tier: 'redis' | 'postgres'): number {
    const { hit, absent, miss } = this.counts[tier];
    return hit + absent + miss;
  }

  hold(): void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    this.release = resolve;
  }

  put(key: string, expiresAtMs: number | null = null): void {
    const principal = { keyId: 'key_a', view: 'narrow', limit: null, collection: null, expiresAtMs } as const;
    this.rows.set(hashOf(key), { principal });
  }
}

let tiers: Tiers;
let window: Window;
let freshness: Freshness;
let isLogFollowed: boolean;
let apiKeys: ApiKeyCache;
const key = makeKey();

/** Lets time pass for a process that runs. */
const later = (ms: number) => {
  for (let restMs = ms; restMs > 0; restMs -= 1_000) {
    vi.advanceTimersByTime(Math.min(restMs, 1_000));
    if (isLogFollowed) freshness.current(monotonicMs());
    freshness.tick();
  }
};
const revoke = () => tiers.rows.delete(hashOf(key));
/** Applies a change of the key, as the log does. */
function changed(): void {
  tiers.position++;
  window.raise('key', hashOf(key), tiers.position);
  apiKeys.changed(hashOf(key));
}
/** Lets an iteration of the event loop pass. */
const iteration = () => vi.advanceTimersByTimeAsync(0);
/** Lets the longest wait of a lookup pass. */
async function waited<T>(lookup: Promise<T>): Promise<T> {
  lookup.catch(() => {});
  await vi.advanceTimersByTimeAsync(500);
  return lookup;
}
/** What is stored in Redis is stored behind the answers. */
const load = async (of = key) => {
  const principal = await apiKeys.load(of);
  await iteration();
  return principal;
};

const cacheWith = (redisCache: Tiers['redisCache'] | undefined) =>
  new ApiKeyCache({
    redisCache: redisCache as never,
    origin: tiers.origin as never,
    prefix: () => tiers.prefix,
    window,
    freshness,
    mayServeAnyAge: (error) => isOutage(error) && freshness.mayServeAnyAge(),
    counts: tiers.counts,
    workers: 1,
  });

afterAll(() => tiers.mayLookUp.mockRestore());
beforeEach(() => {
  fakeTimers();
  tiers = new Tiers();
  tiers.put(key);
  window = new Window();
  window.beginHistory(0);
  freshness = new Freshness(() => tiers.rejection === 'postgres_unavailable');
  freshness.current(monotonicMs());
  isLogFollowed = true;
  freshness.isCurrent = () => isLogFollowed;
  apiKeys = cacheWith(tiers.redisCache);
});

describe('a key', () => {
  it('is rejected without a lookup if it is malformed or mistyped', () => {
    const slip = key.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
    for (const text of ['', 'hk_', 'x', key.toLowerCase(), `${key}x`, slip])
      expect(apiKeys.find(text)).toBeNull();
  });

  it('is not read from PostgreSQL if Redis has it, and each lookup is counted by tier and answer', async () => {
    apiKeys.find(key);
    await load();
    apiKeys.find(key);
    apiKeys.find('no key');
    expect(await cacheWith(tiers.redisCache).load(key)).toMatchObject({ keyId: 'key_a' });
    expect(tiers.counts).toEqual({
      local: { hit: 1, absent: 1, miss: 1 },
      redis: { hit: 1, absent: 0, miss: 1 },
      postgres: { hit: 1, absent: 0, miss: 0 },
    });
  });

  it('is taken from Redis as unknown, unless a newer change is known', async () => {
    tiers.redis.set(hashOf(key), { label: 9, principal: null });
    expect(await apiKeys.load(key)).toBeNull();
    expect(tiers.asked('postgres')).toBe(0);
    window.raise('key', hashOf(key), 10);
    expect(await cacheWith(tiers.redisCache).load(key)).not.toBeNull();
  });

  it('is not read from Redis while the log is not followed, nor without Redis', async () => {
    isLogFollowed = false;
    await apiKeys.load(key);
    isLogFollowed = true;
    await cacheWith(undefined).load(key);
    expect([tiers.asked('redis'), tiers.asked('postgres')]).toEqual([0, 2]);
  });
});

describe('an unknown key', () => {
  it('is cached as unknown for a limited time', async () => {
    const guess = makeKey();
    expect(await apiKeys.load(guess)).toBeNull();
    expect(apiKeys.find(guess)).toBeNull();
    later(60_001);
    expect(apiKeys.find(guess)).toBeUndefined();
  });

  it('never evicts a known key, however many there are', async () => {
    await apiKeys.load(key);
    for (let i = 0; i < 6_000; i++) await apiKeys.load(`guess ${i}`);
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    // the first of them was evicted: the table is bounded
    const before = tiers.asked('redis');
    await apiKeys.load('guess 0');
    expect(tiers.asked('redis')).toBe(before + 1);
  });
});

describe('beyond the limit of unknown keys', () => {
  beforeEach(() => {
    tiers.mayLookUp.mockReturnValue(false);
  });

  it('a further key is neither looked up nor cached as unknown', async () => {
    await expect(waited(apiKeys.load(key))).rejects.toThrow(/too many lookups/);
    expect([tiers.asked('redis'), tiers.asked('postgres')]).toEqual([0, 0]);
    tiers.mayLookUp.mockReturnValue(true);
    expect(await apiKeys.load(key)).not.toBeNull();
  });

  it('concurrent requests with one key count once, however long the lookup takes', async () => {
    tiers.mayLookUp.mockReturnValue(true);
    const guess = makeKey();
    expect(await Promise.all([apiKeys.load(guess), apiKeys.load(guess)])).toEqual([null, null]);
    expect(tiers.mayLookUp).toHaveBeenCalledTimes(1);
    expect(tiers.asked('postgres')).toBe(1);
    tiers.mayLookUp.mockReturnValue(false);
    await expect(waited(apiKeys.load(makeKey()))).rejects.toThrow(/too many lookups/);
  });

  it('a few keys wait for their lookup, and the others are rejected at once', async () => {
    const waiting = Array.from({ length: 32 }, () => apiKeys.load(makeKey()));
    const one = apiKeys.load(key);
    await expect(one).rejects.toThrow(/too many lookups/);
    expect(tiers.asked('postgres')).toBe(0);
    tiers.mayLookUp.mockReturnValue(true);
    expect(await waited(Promise.all(waiting))).toEqual(new Array(32).fill(null));
    expect(tiers.asked('postgres')).toBe(32);
  });

  it('a waiting key is looked up when the log names it', async () => {
    const loading = apiKeys.load(key);
    changed();
    expect(await waited(loading)).not.toBeNull();
  });

  it('a known key is still read again, and one that was in the table when the worker started looked up', async () => {
    const known = makeKey();
    tiers.put(known);
    tiers.mayLookUp.mockReturnValueOnce(true);
    await apiKeys.load(known);
    isLogFollowed = false;
    later(3_301);
    expect(apiKeys.find(known)).toBeUndefined();
    expect(await apiKeys.load(known)).not.toBeNull();
    tiers.prefixes = [{ prefix: hashOf(key).slice(0, 12) }];
    await apiKeys.preload();
    expect(await apiKeys.load(key)).not.toBeNull();
    await expect(waited(apiKeys.load(makeKey()))).rejects.toThrow(/too many lookups/);
  });
});

describe('a change', () => {
  /** Revokes the key during a lookup, whose result is returned. */
  async function revokedDuring<T>(loading: Promise<T>): Promise<T> {
    await iteration();
    revoke();
    changed();
    return loading;
  }

  it('during a lookup prevents its result from being cached here, or used from Redis', async () => {
    tiers.hold();
    const loading = revokedDuring(load());
    await iteration();
    tiers.release();
    await loading;
    expect(apiKeys.find(key)).toBeUndefined();
    expect(tiers.redis.get(hashOf(key))).toMatchObject({ label: 10, principal: { keyId: 'key_a' } });
    expect(await apiKeys.load(key)).toBeNull();
  });

  it('during a lookup is visible to later requests', async () => {
    tiers.hold();
    const before = revokedDuring(apiKeys.load(key));
    await iteration();
    const after = apiKeys.load(key);
    tiers.release();
    expect(await before).not.toBeNull();
    expect(await after).toBeNull();
    expect(apiKeys.find(key)).toBeNull();
  });

  it('of the history during a lookup in Redis, or right behind one, prevents its result from being kept', async () => {
    const begin = () => {
      tiers.prefix += ' and another';
      apiKeys.clear();
      window.beginHistory(1);
    };
    const { read } = tiers.redisCache;
    tiers.redis.set(hashOf(key), { label: 9, ...tiers.rows.get(hashOf(key))! });
    tiers.redisCache.read = (sha256) => read(sha256).finally(begin);
    await load();
    expect(apiKeys.find(key)).toBeUndefined();
    tiers.redis.clear();
    tiers.redisCache.read = read;
    await apiKeys.load(key);
    begin();
    await iteration();
    expect(tiers.redis.size).toBe(0);
  });
});

describe('while Redis and PostgreSQL are unavailable', () => {
  beforeEach(async () => {
    tiers.put(key, wallMs() + 60_000);
    await load();
    tiers.redisThere = false;
    tiers.rejection = 'postgres_unavailable';
    isLogFollowed = false;
  });

  it('a known key is still accepted at any age, before that is known with a lookup each second', async () => {
    const { oldestReadMs } = freshness;
    freshness.oldestReadMs = (nowMs) => nowMs - MAX_AGE_NOT_CURRENT_MS;
    later(3_301);
    expect(apiKeys.find(key)).toBeUndefined();
    expect(await apiKeys.load(key)).toMatchObject({ keyId: 'key_a' });
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    later(1_001);
    expect(apiKeys.find(key)).toBeUndefined();
    freshness.oldestReadMs = oldestReadMs;
    later(45_000);
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    tiers.rejection = undefined;
    expect(apiKeys.find(key)).toBeUndefined();
  });

  it('a key that only Redis holds is accepted, and looked up again after a second', async () => {
    apiKeys = cacheWith(tiers.redisCache);
    tiers.redisThere = true;
    freshness.oldestReadMs = (nowMs) => nowMs - MAX_AGE_NOT_CURRENT_MS;
    expect(await apiKeys.load(key)).toMatchObject({ keyId: 'key_a' });
    tiers.rejection = undefined;
    revoke();
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    later(1_001);
    expect(apiKeys.find(key)).toBeUndefined();
    expect(await apiKeys.load(key)).toBeNull();
    expect(apiKeys.find(key)).toBeNull();
  });

  it('a key that only Redis holds is not accepted if a newer change is known, or as unknown', async () => {
    apiKeys = cacheWith(tiers.redisCache);
    tiers.redisThere = true;
    window.raise('key', hashOf(key), 11);
    await expect(apiKeys.load(key)).rejects.toThrow(Unavailable);
    tiers.redis.set(hashOf(key), { label: 11, principal: null });
    await expect(apiKeys.load(key)).rejects.toThrow(Unavailable);
  });
});

it('a key is read again after an hour, and used meanwhile if that fails: the log would have named a change', async () => {
  await load();
  later(3_600_001);
  expect(apiKeys.find(key)).toBeUndefined();
  tiers.redis.clear();
  tiers.rejection = 'postgres_timeout';
  expect(await apiKeys.load(key)).not.toBeNull();
  expect(apiKeys.find(key)).not.toBeNull();
  isLogFollowed = false;
  later(3_301);
  await expect(apiKeys.load(key)).rejects.toThrow(Unavailable);
});

it('while the log is not followed no cached key is used for longer than 3.3 s from the beginning of its lookup', async () => {
  const both = [key, makeKey()];
  apiKeys = cacheWith(undefined);
  tiers.hold();
  const loading = both.map((each) => apiKeys.load(each));
  later(2_000);
  tiers.release();
  const loaded = await Promise.all(loading);
  isLogFollowed = false;
  later(1_299);
  expect(both.map((each) => apiKeys.find(each))).toEqual(loaded);
  later(2);
  expect(both.map((each) => apiKeys.find(each))).toEqual([undefined, undefined]);
});

it('a request shares no lookup that began over 3.3 s ago: the process may have been stopped', async () => {
  apiKeys = cacheWith(undefined);
  tiers.hold();
  const before = apiKeys.load(key);
  await iteration();
  revoke();
  isLogFollowed = false;
  later(3_301);
  const after = apiKeys.load(key);
  tiers.release();
  expect(await before).not.toBeNull();
  expect(await after).toBeNull();
  expect(tiers.asked('postgres')).toBe(2);
});

it.each<Rejection>(['postgres_timeout', 'postgres_queue'])(
  'a cached key is not accepted if its lookup fails (%s) while PostgreSQL answers others',
  async (rejection) => {
    await load();
    isLogFollowed = false;
    later(3_301);
    tiers.rejection = rejection;
    await expect(apiKeys.load(key)).rejects.toThrow(Unavailable);
  },
);
