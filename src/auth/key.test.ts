import { crc32 } from 'node:zlib';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { forAll } from '../lib/for-all.fixture.ts';
import { isWellFormed, makeKey } from './key.ts';

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const digit = fc.constantFrom(...DIGITS);

/** Computes the checksum as the format describes it, in big integers. */
function checksumOf(text: string): string {
  let digits = '';
  for (let rest = BigInt(crc32(text)); rest > 0n; rest /= 62n) digits = DIGITS[Number(rest % 62n)] + digits;
  return digits.padStart(6, '0');
}

it('a key is well-formed and unique', () => {
  const keys = Array.from({ length: 2_000 }, makeKey);
  for (const key of keys) expect(key).toMatch(/^hk_[0-9A-Za-z]{38}$/);
  expect(keys.every(isWellFormed)).toBe(true);
  expect(new Set(keys).size).toBe(keys.length);
});

it('a key is well-formed exactly if it has the form and ends with the checksum of the rest', () => {
  const random = fc.string({ unit: digit, minLength: 32, maxLength: 32 });
  forAll(random, fc.string({ unit: digit, minLength: 6, maxLength: 6 }), (characters, ending) => {
    const body = `hk_${characters}`;
    expect(isWellFormed(body + checksumOf(body))).toBe(true);
    expect(isWellFormed(body + ending)).toBe(ending === checksumOf(body));
  });
  const right = 'a'.repeat(31);
  for (const body of ['', 'hk_', `sk_${right}a`, `hk_${right}`, `hk_${right}aa`, `hk_${right}-`])
    expect(isWellFormed(body + checksumOf(body)), body).toBe(false);
});
