import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { MAC_BYTES, MacSecret } from './mac.ts';

const KEY = randomBytes(32);

function withKey(key: Uint8Array): MacSecret {
  const secret = new MacSecret();
  secret.use(key);
  return secret;
}

describe('a code', () => {
  const mac = withKey(KEY).mac('feed', 'text');

  it('verifies with the same secret, purpose and data', () => {
    expect(mac).toHaveLength(MAC_BYTES);
    expect(withKey(KEY).verifies('feed', Buffer.from('text'), mac)).toBe(true);
  });

  it('does not verify with another secret, purpose, data or length', () => {
    expect(withKey(randomBytes(32)).verifies('feed', 'text', mac)).toBe(false);
    expect(new MacSecret().verifies('feed', 'text', mac)).toBe(false);
    expect(withKey(KEY).verifies('key', 'text', mac)).toBe(false);
    expect(withKey(KEY).verifies('feed', 'texT', mac)).toBe(false);
    expect(withKey(KEY).verifies('feed', 'text', mac.subarray(1))).toBe(false);
  });
});

describe('a secret', () => {
  it.each([0, 31, 33])('of %i bytes is rejected', (length) => {
    expect(() => withKey(randomBytes(length))).toThrow(`the secret has ${length} bytes, not 32`);
  });

  it('reports whether the new secret differs from the one before', () => {
    const secret = new MacSecret();
    expect([KEY, Buffer.from(KEY), randomBytes(32)].map((key) => secret.use(key))).toEqual([
      true,
      false,
      true,
    ]);
  });
});
