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
  const mac = withKey(KEY).mac('text');

  it('verifies with the same secret and data', () => {
    expect(mac).toHaveLength(MAC_BYTES);
    expect(withKey(KEY).verifies(Buffer.from('text'), mac)).toBe(true);
  });

  it('does not verify with another secret, data or length', () => {
    expect(withKey(randomBytes(32)).verifies('text', mac)).toBe(false);
    expect(new MacSecret().verifies('text', mac)).toBe(false);
    expect(withKey(KEY).verifies('texT', mac)).toBe(false);
    expect(withKey(KEY).verifies('text', mac.subarray(1))).toBe(false);
  });
});

describe('a secret', () => {
  it.each([0, 31, 33])('of %i bytes is rejected', (length) => {
    expect(() => withKey(randomBytes(length))).toThrow(`the secret has ${length} bytes, not 32`);
  });
});
