import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';

/**
 * A key is `hk_`, 32 random characters (190 bits) and 6 that are the CRC-32 of all before them, in base 62.
 * The checksum is no secret: it lets a guess or a slip of the pen be refused without any look-up.
 */
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const RANDOM_CHARACTERS = 32;
const CHECKSUM_CHARACTERS = 6;
const SHAPE = /^hk_[0-9A-Za-z]{38}$/;

/** Makes a new key. */
export function makeKey(): string {
  let random = '';
  while (random.length < RANDOM_CHARACTERS) {
    for (const byte of randomBytes(2 * RANDOM_CHARACTERS)) {
      // 248 = 4 * 62: a larger byte would favour the first digits
      if (byte < 248 && random.length < RANDOM_CHARACTERS) random += DIGITS[byte % 62];
    }
  }
  return `hk_${random}${checksumOf(`hk_${random}`)}`;
}

/** True when the text has a key's form and its checksum is right; says nothing of whether it was ever given out. */
export function isWellFormed(key: string): boolean {
  return (
    SHAPE.test(key) && key.slice(-CHECKSUM_CHARACTERS) === checksumOf(key.slice(0, -CHECKSUM_CHARACTERS))
  );
}

/** The sha256 of a key in hexadecimal: all that tables, caches and messages know of it. */
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
