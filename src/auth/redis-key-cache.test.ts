import { describe, expect, it, vi } from 'vitest';
import { MacSecret } from '../lib/mac.ts';
import { principalOf } from './principal.ts';
import { decodeKey, encodeKey, type LabelledKey, RedisKeyCache } from './redis-key-cache.ts';

const SHA256 = 'ab'.repeat(32);
const NAME = `g:k:${SHA256}`;
const secret = new MacSecret();
const key: LabelledKey = {
  label: 9_007_199_254_740_991,
  principal: {
    keyId: 'key_é',
    view: 'full',
    expiresAtMs: 1_800_000_000_123,
    limit: { requests: 200, windowMs: 1_000 },
    collection: 'col_a',
  },
};
const unknown: LabelledKey = { label: 0, principal: null };
const forever = { ...key, principal: { ...key.principal!, expiresAtMs: Infinity, limit: null } };

describe('a key in Redis', () => {
  it.each([[key], [unknown], [forever]])('is decoded as it was encoded: %o', (labelled) => {
    expect(decodeKey(NAME, encodeKey(NAME, labelled, secret), secret)).toEqual(labelled);
  });

  it.each([
    ['under the name of another key', `g:k:${'cd'.repeat(32)}`, secret],
    ['under another prefix', `h:k:${SHA256}`, secret],
    ['with another secret', NAME, new MacSecret()],
  ])('is invalid %s', (_, name, own) => {
    expect(decodeKey(name, encodeKey(NAME, key, secret), own)).toBeUndefined();
  });

  it('is invalid after any bit flip, and if it is truncated or extended', () => {
    const valid = encodeKey(NAME, key, secret);
    for (let bit = 0; bit < 8 * valid.length; bit++) {
      const damaged = Buffer.from(valid);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      expect(decodeKey(NAME, damaged, secret)).toBeUndefined();
    }
    for (let length = 0; length < valid.length; length++) {
      expect(decodeKey(NAME, valid.subarray(0, length), secret)).toBeUndefined();
    }
    expect(decodeKey(NAME, Buffer.concat([valid, Buffer.from(' ')]), secret)).toBeUndefined();
  });

  it('counts as missing while it is invalid', async () => {
    const onInvalidValue = vi.fn();
    const stored = { read: async () => Buffer.from('corrupt') } as never;
    const cache = new RedisKeyCache(stored, { ttlMs: 1, absentTtlMs: 1, onInvalidValue }, secret);
    expect(await cache.read(SHA256)).toBeUndefined();
    expect(onInvalidValue).toHaveBeenCalledOnce();
  });
});

it.each([
  [null, null, null],
  [200, 1, { requests: 200, windowMs: 1_000 }],
  [6_000, 60, { requests: 6_000, windowMs: 60_000 }],
])('a row is read by its column names, with a limit of %s in %s s', (requests, seconds, limit) => {
  const row = {
    id: 'key_a',
    scopes: ['registry'],
    expires_at_ms: 5,
    rate_limit_requests: requests,
    rate_limit_window_s: seconds,
    collection_id: 'col_a',
  };
  expect(principalOf(row)).toEqual({
    keyId: 'key_a',
    view: 'full',
    expiresAtMs: 5,
    limit,
    collection: 'col_a',
  });
});
