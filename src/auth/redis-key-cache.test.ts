import { randomBytes } from 'node:crypto';
import { expect, it, vi } from 'vitest';
import { decodeKey, encodeKey, type LabelledKey, RedisKeyCache } from './redis-key-cache.ts';

const SHA256 = 'ab'.repeat(32);
const NAME = `g:k:${SHA256}`;
const secret = randomBytes(32);
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
const forever = { ...key, principal: { ...key.principal!, expiresAtMs: null, limit: null } };

it('a key in Redis is decoded as it was encoded', () => {
  for (const labelled of [key, unknown, forever])
    expect(decodeKey(NAME, encodeKey(NAME, labelled, secret), secret)).toEqual(labelled);
});

it('a key in Redis is invalid under another name, with another secret, after any bit flip, truncated and extended', () => {
  const valid = encodeKey(NAME, key, secret);
  expect(decodeKey(NAME, valid, randomBytes(32))).toBeUndefined();
  for (const name of [`g:k:${'cd'.repeat(32)}`, `h:k:${SHA256}`])
    expect(decodeKey(name, valid, secret)).toBeUndefined();
  for (let bit = 0; bit < 8 * valid.length; bit++) {
    const damaged = Buffer.from(valid);
    damaged[bit >> 3]! ^= 1 << (bit & 7);
    expect(decodeKey(NAME, damaged, secret)).toBeUndefined();
  }
  for (let length = 0; length < valid.length; length++)
    expect(decodeKey(NAME, valid.subarray(0, length), secret)).toBeUndefined();
  expect(decodeKey(NAME, Buffer.concat([valid, Buffer.from(' ')]), secret)).toBeUndefined();
});

it('a key in Redis counts as missing while it is invalid', async () => {
  const onInvalidValue = vi.fn();
  const stored = { read: async () => Buffer.from('corrupt') } as never;
  const cache = new RedisKeyCache(stored, { prefix: () => 'p', ttlMs: 1, onInvalidValue }, () => secret);
  expect(await cache.read(SHA256)).toBeUndefined();
  expect(onInvalidValue).toHaveBeenCalledOnce();
});

it('the longest key is stored, and what is longer is invalid before it is authenticated', () => {
  const longest = { ...key, principal: { ...key.principal!, collection: '\u0001'.repeat(255) } };
  expect(decodeKey(NAME, encodeKey(NAME, longest, secret), secret)).toEqual(longest);
  const long = Buffer.concat([encodeKey(NAME, key, secret), Buffer.alloc(4_096)]);
  // which throws without a secret
  expect(decodeKey(NAME, long, Buffer.alloc(0))).toBeUndefined();
});

it.each([0, 31, 33])('a secret of %i bytes is rejected', (length) => {
  expect(() => encodeKey(NAME, key, Buffer.alloc(length))).toThrow(`the secret has ${length} bytes`);
});

it('nothing is stored by a worker that follows no history yet', async () => {
  const setMany = vi.fn();
  const options = { prefix: () => '', ttlMs: 1, onInvalidValue: () => {} };
  await new RedisKeyCache({ setMany } as never, options, () => new Uint8Array()).fill(SHA256, key);
  expect(setMany).not.toHaveBeenCalled();
});
