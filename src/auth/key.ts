import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * Format of a key: `hk_`, 32 random characters (190 bits) and the CRC-32 of all before them as 6 characters, in base
 * 62. The checksum is not secret. It allows typing errors and most guesses to be rejected without a lookup.
 */
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_CHARACTERS = 32;
const CHECKSUM_CHARACTERS = 6;
const SHAPE = /^hk_[0-9A-Za-z]{38}$/;

export function makeKey(): string {
  let key = 'hk_';
  for (let i = 0; i < RANDOM_CHARACTERS; i++) key += DIGITS[randomInt(DIGITS.length)];
  return key + checksumOf(key);
}

/** Returns true if the text has the form of a key and its checksum is right. The key need not exist. */
export function isWellFormed(key: string): boolean {
  return (
    SHAPE.test(key) && key.slice(-CHECKSUM_CHARACTERS) === checksumOf(key.slice(0, -CHECKSUM_CHARACTERS))
  );
}

/** Returns the sha256 of a key in hexadecimal, the only form in tables, caches and messages. */
export function hashOf(key: string): string {
  return hash('sha256', key, 'hex');
}

function checksumOf(text: string): string {
  let rest = crc32(text);
  let digits = '';
  for (let i = 0; i < CHECKSUM_CHARACTERS; i++) {
    digits = DIGITS[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}
