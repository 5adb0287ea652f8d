import { describe, expect, it } from 'vitest';
import { decodeKey, encodeKey, isOfFormerRelease, keyOf, type VersionedKey } from './record.ts';

const SHA256 = 'ab'.repeat(32);
const key: VersionedKey = {
  version: 9_007_199_254_740_991,
  record: {
    id: 'key_é',
    scopes: ['registry'],
    expiresAtMs: 1_800_000_000_123,
    revoked: false,
    rateLimit: { requests: 200, windowMs: 1_000 },
  },
};
const unknown: VersionedKey = { version: 0, record: null };

describe('a key as Redis holds it', () => {
  it.each([
    [key],
    [unknown],
    [
      {
        version: 1,
        record: { ...key.record!, scopes: [], expiresAtMs: null, revoked: true, rateLimit: null },
      },
    ],
  ])('comes back as it was: %o', (versioned) => {
    expect(decodeKey(SHA256, encodeKey(SHA256, versioned))).toEqual(versioned);
  });

  it('is nothing under the name of another key', () => {
    expect(decodeKey('cd'.repeat(32), encodeKey(SHA256, key))).toBeUndefined();
  });

  it('is nothing when any bit of it has flipped, or it was cut or made longer', () => {
    const sound = encodeKey(SHA256, key);
    for (let bit = 0; bit < 8 * sound.length; bit++) {
      const damaged = Buffer.from(sound);
      damaged[bit >> 3]! ^= 1 << (bit & 7);
      expect(decodeKey(SHA256, damaged)).toBeUndefined();
    }
    for (let length = 0; length < sound.length; length++) {
      expect(decodeKey(SHA256, sound.subarray(0, length))).toBeUndefined();
    }
    expect(decodeKey(SHA256, Buffer.concat([sound, Buffer.from(' ')]))).toBeUndefined();
  });

  it('carries its version where the script that compares versions looks for it', () => {
    const bytes = encodeKey(SHA256, key);
    expect(bytes.readDoubleLE(8)).toBe(key.version);
    expect(bytes.subarray(4, 8)).toEqual(encodeKey(SHA256, unknown).subarray(4, 8));
  });
});

it.each([
  [null, null, null],
  [200, 1, { requests: 200, windowMs: 1_000 }],
  [6_000, 60, { requests: 6_000, windowMs: 60_000 }],
])('a row is read by its names, with a limit of %s in %s s', (requests, seconds, rateLimit) => {
  const row = {
    sha256: SHA256,
    id: 'key_a',
    scopes: ['registry'],
    expires_at_ms: 5,
    revoked: true,
    rate_limit_requests: requests,
    rate_limit_window_s: seconds,
    version: 7,
  };
  expect(keyOf(row)).toEqual({
    version: 7,
    record: { id: 'key_a', scopes: ['registry'], expiresAtMs: 5, revoked: true, rateLimit },
  });
});

it('what an earlier release has written is told from what is damaged', () => {
  const former = encodeKey(SHA256, key);
  former.write('HEK1', 4, 'latin1');
  expect(decodeKey(SHA256, former)).toBeUndefined();
  expect(isOfFormerRelease(former)).toBe(true);
  expect(isOfFormerRelease(encodeKey(SHA256, key))).toBe(false);
  expect(isOfFormerRelease(Buffer.from('HEK1'))).toBe(false);
});
