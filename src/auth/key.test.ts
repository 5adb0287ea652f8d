import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '../lib/for-all.fixture.ts';
import { hashOf, isWellFormed, makeKey } from './key.ts';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const digit = fc.constantFrom(...DIGITS);
const random = fc.string({ unit: digit, minLength: 32, maxLength: 32 });

/** Computes the checksum as the format describes it, in big integers. */
function checksumOf(text: string): string {
  let digits = '';
  for (let rest = BigInt(crc32(text)); rest > 0n; rest /= 62n) digits = DIGITS[Number(rest % 62n)] + digits;
  return digits.padStart(6, '0');
}

describe('a key', () => {
  it('is well-formed and unique', () => {
    const keys = Array.from({ length: 2_000 }, makeKey);
    for (const key of keys) expect(key).toMatch(/^hk_[0-9A-Za-z]{38}$/);
    expect(keys.every(isWellFormed)).toBe(true);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('is well-formed exactly if it ends with the checksum of the rest', () => {
    forAll(random, fc.string({ unit: digit, minLength: 6, maxLength: 6 }), (characters, ending) => {
      const body = `hk_${characters}`;
      expect(isWellFormed(body + checksumOf(body))).toBe(true);
      expect(isWellFormed(body + ending)).toBe(ending === checksumOf(body));
    });
  });

  it.each([
    '',
    'hk_',
    `sk_${'a'.repeat(32)}`,
    `hk_${'a'.repeat(31)}`,
    `hk_${'a'.repeat(33)}`,
    `hk_${'a'.repeat(31)}-`,
  ])('is rejected for its form, although its checksum is right: %j', (body) => {
    expect(isWellFormed(body + checksumOf(body))).toBe(false);
  });
});

describe('the hash of a key', () => {
  it('is sha256 in hexadecimal', () => {
    expect(hashOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad');
    expect(hashOf('')).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855');
  });
});
