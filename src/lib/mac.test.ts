import { expect, it } from 'vitest';
import { MacSecret } from './mac.ts';

// src/auth/redis-key-cache.test.ts has other secrets, data and lengths of codes
it.each([0, 31, 33])('a secret of %i bytes is rejected', (length) => {
  expect(() => new MacSecret().use(Buffer.alloc(length))).toThrow(`the secret has ${length} bytes, not 32`);
});
