import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { isOutage, type Rejection, Unavailable } from '../errors.ts';
import { fakeTimers, realClocks } from '../lib/clock.fixture.ts';
import { monotonicMs, wallMs } from '../lib/clock.ts';
import { MAX_AGE_THEN_MS } from '../log/bounds.ts';
import { Freshness } from '../log/freshness.ts';
import { Window } from '../log/window.ts';
import { ApiKeyCache } from './api-key-cache.ts';
import { hashOf, makeKey } from './key.ts';
import type { KeyRow, Principal } from './principal.ts';
import type { LabelledKey } from './redis-key-cache.ts';

/** The tiers behind the key cache with their present content; a tier on hold answers after its release. */
class Tiers {
  readonly rows = new Map<string, KeyRow>();
  /** position of the log at which PostgreSQL is read */
  position = 10;
  history = 'first';
  readonly redis = new Map<string, LabelledKey>();
  redisThere = true;
  rejection: Rejection | undefined;
  requested = { redis: 0, postgres: 0 };
  readonly counts = {
    local: { hit: 0, absent: 0, miss: 0 },
    redis: { hit: 0, absent: 0, miss: 0 },
    postgres: { hit: 0, absent: 0, miss: 0 },
  };
  #held: Promise<void> | undefined;
  prefixes: { prefix: string }[] = [];
  readonly mayLookUp = vi.fn<() => boolean>(() => true);

  readonly redisCache = {
    read: async (sha256: string) => {
      this.requested.redis++;
      return this.redisThere ? this.redis.get(sha256) : undefined;
    },
    fill: async (sha256: string, key: LabelledKey) => {
      this.redis.set(sha256, key);
    },
  };
  readonly origin = {
    primary: async (_: string, [sha256]: string[]) => {
      this.requested.postgres++;
      if (this.rejection) throw new Unavailable('PostgreSQL did not answer', { rejection: this.rejection });
      const { position: label } = this;
      const rows = [this.rows.get(sha256!)].filter(Boolean);
      await this.#held;
      return { label, rows };
    },
    rows: async () => this.prefixes,
  };

  /** Holds answers of PostgreSQL until the returned function is called. */
  hold(): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#held = promise;
    return resolve;
  }

  put(key: string, row: Partial<KeyRow> = {}): void {
    this.rows.set(hashOf(key), {
      id: 'key_a',
      scopes: [],
      expires_at_ms: null,
      rate_limit_requests: null,
      rate_limit_window_s: null,
      collection_id: null,
      ...row,
    });
  }

  revoke(key: string): void {
    this.rows.delete(hashOf(key));
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
/** Applies a change of a key, as the log does; null: it is revoked. */
function changed(row: Partial<KeyRow> | null = {}, of = key): void {
  if (row) tiers.put(of, row);
  else tiers.revoke(of);
  tiers.position++;
  window.raise('key', hashOf(of), tiers.position);
  apiKeys.changed(hashOf(of));
}
/** Stops to follow the log. */
function loseLog(): void {
  isLogFollowed = false;
  // the worker is not current any more
  freshness.isCurrent = () => isLogFollowed;
}
/** One iteration of the event loop. */
const turn = () => vi.advanceTimersByTimeAsync(0);
/** Lets the longest wait of a lookup pass. */
async function waited<T>(lookup: Promise<T>): Promise<T> {
  lookup.catch(() => {});
  await vi.advanceTimersByTimeAsync(500);
  return lookup;
}
/** What is stored in Redis is stored behind the answers. */
const load = async (of = key, cache = apiKeys) => {
  const principal = await cache.load(of);
  await turn();
  return principal;
};

const cacheWith = (redisCache: Tiers['redisCache'] | undefined) =>
  new ApiKeyCache({
    redisCache: redisCache as never,
    origin: tiers.origin as never,
    history: () => tiers.history,
    window,
    freshness,
    mayServeAnyAge: (error) => isOutage(error) && freshness.mayServeAnyAge(),
    counts: tiers.counts,
    mayLookUp: tiers.mayLookUp,
  });

beforeEach(() => {
  fakeTimers();
  tiers = new Tiers();
  window = new Window();
  window.beginHistory(0);
  freshness = new Freshness(() => tiers.rejection === 'postgres_unavailable');
  freshness.current(monotonicMs());
  isLogFollowed = true;
  freshness.isCurrent = () => isLogFollowed;
  apiKeys = cacheWith(tiers.redisCache);
});
afterEach(realClocks);

/** Rights of the key. */
const RIGHTS: Principal = {
  keyId: 'key_a',
  view: 'narrow',
  expiresAtMs: Infinity,
  limit: null,
  collection: null,
};

describe('a key', () => {
  it('is rejected without a lookup if it is malformed or mistyped', () => {
    const slip = key.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
    for (const text of ['', 'hk_', 'x', key.toLowerCase(), `${key}x`, slip])
      expect(apiKeys.find(text)).toBeNull();
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

  it('is not read from PostgreSQL if Redis has it', async () => {
    tiers.put(key);
    await load();
    expect(await cacheWith(tiers.redisCache).load(key)).toMatchObject({ keyId: 'key_a' });
    expect(tiers.requested).toEqual({ redis: 2, postgres: 1 });
  });

  it('is taken from Redis as unknown, unless a newer change is known', async () => {
    tiers.put(key);
    tiers.redis.set(hashOf(key), { label: 9, principal: null });
    expect(await apiKeys.load(key)).toBeNull();
    expect(tiers.requested.postgres).toBe(0);
    window.raise('key', hashOf(key), 10);
    expect(await cacheWith(tiers.redisCache).load(key)).not.toBeNull();
  });

  it('is not read from Redis while the log is not followed, nor without Redis', async () => {
    tiers.put(key);
    loseLog();
    await apiKeys.load(key);
    isLogFollowed = true;
    await cacheWith(undefined).load(key);
    expect(tiers.requested).toEqual({ redis: 0, postgres: 2 });
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
    await expect(waited(apiKeys.load(key))).rejects.toThrow(/too many lookups/);
    expect(tiers.requested).toEqual({ redis: 0, postgres: 0 });
    tiers.mayLookUp.mockReturnValue(true);
    expect(await apiKeys.load(key)).not.toBeNull();
  });

  it('concurrent requests with one key count once, however long the lookup takes', async () => {
    tiers.mayLookUp.mockReturnValue(true);
    expect(await Promise.all([apiKeys.load(key), apiKeys.load(key)])).toEqual([null, null]);
    expect(tiers.mayLookUp).toHaveBeenCalledTimes(1);
    expect(tiers.requested.postgres).toBe(1);
    tiers.mayLookUp.mockReturnValue(false);
    await expect(waited(apiKeys.load(makeKey()))).rejects.toThrow(/too many lookups/);
  });

  it('a few keys wait for their lookup, and the others are rejected at once', async () => {
    const waiting = Array.from({ length: 32 }, () => apiKeys.load(makeKey()));
    const one = apiKeys.load(key);
    await expect(one).rejects.toThrow(/too many lookups/);
    expect(tiers.requested.postgres).toBe(0);
    tiers.mayLookUp.mockReturnValue(true);
    expect(await waited(Promise.all(waiting))).toEqual(new Array(32).fill(null));
    expect(tiers.requested.postgres).toBe(32);
  });

  it('a waiting key is looked up when the log names it', async () => {
    const loading = apiKeys.load(key);
    changed();
    expect(await waited(loading)).not.toBeNull();
  });

  it('a known key is still read again', async () => {
    tiers.put(key);
    tiers.mayLookUp.mockReturnValue(true);
    await apiKeys.load(key);
    tiers.mayLookUp.mockReturnValue(false);
    loseLog();
    later(3_301);
    expect(apiKeys.find(key)).toBeUndefined();
    expect(await apiKeys.load(key)).not.toBeNull();
  });

  it('a key that was in the table when the worker started is still looked up', async () => {
    tiers.put(key);
    tiers.prefixes = [{ prefix: hashOf(key).slice(0, 12) }];
    await apiKeys.preload();
    expect(await apiKeys.load(key)).not.toBeNull();
    await expect(waited(apiKeys.load(makeKey()))).rejects.toThrow(/too many lookups/);
  });
});

describe('a change', () => {
  it('during a lookup prevents its result from being cached here, or used from Redis', async () => {
    tiers.put(key);
    const release = tiers.hold();
    const loading = load();
    await turn();
    changed(null);
    release();
    await loading;
    expect(apiKeys.find(key)).toBeUndefined();
    expect(tiers.redis.get(hashOf(key))).toMatchObject({ label: 10, principal: { keyId: 'key_a' } });
    expect(await apiKeys.load(key)).toBeNull();
  });

  it('during a lookup is visible to later requests', async () => {
    tiers.put(key);
    const release = tiers.hold();
    const before = apiKeys.load(key);
    await turn();
    changed(null);
    const after = apiKeys.load(key);
    release();
    expect(await before).not.toBeNull();
    expect(await after).toBeNull();
    expect(apiKeys.find(key)).toBeNull();
  });

  it('of the history during a lookup in Redis prevents its result from being cached', async () => {
    tiers.redis.set(hashOf(key), { label: 9, principal: RIGHTS });
    const { read } = tiers.redisCache;
    tiers.redisCache.read = async (sha256) => {
      const found = await read(sha256);
      tiers.history = 'second';
      apiKeys.clear();
      window.beginHistory(1);
      return found;
    };
    await load();
    expect(apiKeys.find(key)).toBeUndefined();
  });

  it('of the history right behind a lookup prevents its result from being stored in Redis', async () => {
    tiers.put(key);
    await apiKeys.load(key);
    tiers.history = 'second';
    apiKeys.clear();
    await turn();
    expect(tiers.redis.size).toBe(0);
  });
});

describe('while Redis and PostgreSQL are unavailable', () => {
  beforeEach(async () => {
    tiers.put(key, { expires_at_ms: wallMs() + 60_000 });
    await load();
    tiers.redisThere = false;
    tiers.rejection = 'postgres_unavailable';
    loseLog();
  });

  it('a known key is still accepted at any age, without a lookup', async () => {
    later(50_000);
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    tiers.rejection = undefined;
    expect(apiKeys.find(key)).toBeUndefined();
  });

  it('a known key is accepted before that is known, with a lookup each second', async () => {
    later(3_301);
    freshness.oldestReadMs = (nowMs) => nowMs - MAX_AGE_THEN_MS;
    expect(apiKeys.find(key)).toBeUndefined();
    expect(await apiKeys.load(key)).toMatchObject({ keyId: 'key_a' });
    expect(apiKeys.find(key)).toMatchObject({ keyId: 'key_a' });
    later(1_001);
    expect(apiKeys.find(key)).toBeUndefined();
  });

  it('a key that only Redis holds is accepted, and looked up again after a second', async () => {
    apiKeys = cacheWith(tiers.redisCache);
    tiers.redisThere = true;
    freshness.oldestReadMs = (nowMs) => nowMs - MAX_AGE_THEN_MS;
    expect(await apiKeys.load(key)).toMatchObject({ keyId: 'key_a' });
    tiers.rejection = undefined;
    tiers.revoke(key);
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

  it('a failure is not cached', async () => {
    const other = makeKey();
    await apiKeys.load(other).catch(() => {});
    tiers.rejection = undefined;
    tiers.put(other, { id: 'key_b' });
    expect(await apiKeys.load(other)).toMatchObject({ keyId: 'key_b' });
  });
});

it('a key is read again after an hour, whatever is known', async () => {
  tiers.put(key);
  await load();
  later(3_600_001);
  expect(apiKeys.find(key)).toBeUndefined();
});

it('while the log is not followed no cached key is used for longer than 3.3 s', async () => {
  const guess = makeKey();
  tiers.put(key);
  await load();
  await load(guess);
  loseLog();
  expect(apiKeys.find(key)).not.toBeNull();
  expect(apiKeys.find(guess)).toBeNull();
  later(3_301);
  expect([apiKeys.find(key), apiKeys.find(guess)]).toEqual([undefined, undefined]);
});

it('a request shares no lookup that began over 3.3 s ago: the process may have been stopped', async () => {
  tiers.put(key);
  apiKeys = cacheWith(undefined);
  const release = tiers.hold();
  const before = apiKeys.load(key);
  await turn();
  tiers.revoke(key);
  loseLog();
  later(3_301);
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
  loseLog();
  later(1_301);
  expect(apiKeys.find(key)).toBeUndefined();
});

it.each([
  ['cached', () => {}],
  ['dropped meanwhile', () => apiKeys.changed(hashOf(key))],
])('a key whose lookup takes 300 ms is waited for, if it is %s', async (_, befall) => {
  tiers.put(key);
  apiKeys = cacheWith(undefined);
  await apiKeys.load(key);
  const release = tiers.hold();
  tiers.revoke(key);
  const loaded = apiKeys.load(key);
  befall();
  await vi.advanceTimersByTimeAsync(300);
  release();
  expect(await loaded).toBeNull();
});

it.each<Rejection>(['postgres_timeout', 'postgres_queue'])(
  'a cached key is not accepted if its lookup fails (%s) while PostgreSQL answers others',
  async (rejection) => {
    tiers.put(key);
    await load();
    loseLog();
    later(3_301);
    tiers.rejection = rejection;
    await expect(apiKeys.load(key)).rejects.toThrow(Unavailable);
  },
);
