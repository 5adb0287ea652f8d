/** Access to the keys of an entry, and checks. */

import {
  BODY_LENGTH_AT,
  FULL_TAG_AT,
  HEADER_BYTES,
  KEY_LENGTHS_AT,
  MAGIC_AT,
  NARROW_TAG_AT,
  SHARED_LENGTH_AT,
  TAG_BYTES,
  URL_LENGTH_AT,
  VALID_FROM_AT,
  VALID_UNTIL_AT,
} from '../../hotels/entry-layout';
import { MAX_KEY_BYTES as KEY_BYTES } from '../constants';

export const MAX_KEY_BYTES: u32 = KEY_BYTES;
export let magic: u32 = 0;

/** Takes the magic number of valid entries. */
export function setMagic(value: u32): void {
  magic = value;
}

/** Returns the length of an entry's key, 0 if it has none in that namespace. */
export function entryKeyLength(entry: usize, namespace: u32): u32 {
  return load<u16>(entry + ((<usize>namespace) << 1), KEY_LENGTHS_AT);
}

export function entryKey(entry: usize, namespace: u32): usize {
  let key = entry + HEADER_BYTES;
  if (namespace > 0) key += entryKeyLength(entry, 0);
  if (namespace > 1) key += entryKeyLength(entry, 1);
  return key;
}

/** Returns true if this is a key of the entry. */
export function hasKey(entry: usize, namespace: u32, key: usize, length: u32): bool {
  return entryKeyLength(entry, namespace) === length && isSame(entryKey(entry, namespace), key, length);
}

/**
 * Returns true for an entry of a present hotel with storable keys, whose parts lie within it, and whose tags can be shown: each
 * entry in Redis may be forged.
 */
export function isValid(entry: usize, length: u32): bool {
  if (length < <u32>HEADER_BYTES || load<u32>(entry, MAGIC_AT) !== magic) return false;
  let before: u64 = <u64>HEADER_BYTES + load<u16>(entry, URL_LENGTH_AT);
  for (let namespace: u32 = 0; namespace < 3; namespace++) {
    const keyLength = entryKeyLength(entry, namespace);
    if (keyLength > MAX_KEY_BYTES) return false;
    before += keyLength;
  }
  const bodyLength = load<u32>(entry, BODY_LENGTH_AT);
  return (
    entryKeyLength(entry, 0) > 0 &&
    bodyLength > 0 &&
    before + bodyLength === <u64>length &&
    load<u32>(entry, SHARED_LENGTH_AT) <= bodyLength &&
    areOfTags(v128.load(entry, NARROW_TAG_AT)) &&
    areOfTags(v128.load(entry, FULL_TAG_AT + TAG_BYTES - 16))
  );
}

/** Returns true if `certified` in the body is right at `wallMs`, or if that is NaN: no time is before or after it. */
export function isValidAt(entry: usize, wallMs: f64): bool {
  return !(wallMs < load<f64>(entry, VALID_FROM_AT) || wallMs >= load<f64>(entry, VALID_UNTIL_AT));
}

/** Returns true if each of 16 bytes is a character of base64url. Both tags are 24 bytes in a row. */
function areOfTags(bytes: v128): bool {
  const lowered = v128.or(bytes, i8x16.splat(0x20));
  const isLetter = i8x16.lt_u(i8x16.sub(lowered, i8x16.splat(0x61)), i8x16.splat(26));
  const isDigit = i8x16.lt_u(i8x16.sub(bytes, i8x16.splat(0x30)), i8x16.splat(10));
  const isDash = i8x16.eq(bytes, i8x16.splat(0x2d));
  const isUnderscore = i8x16.eq(bytes, i8x16.splat(0x5f));
  return i8x16.all_true(v128.or(v128.or(isLetter, isDigit), v128.or(isDash, isUnderscore)));
}

export function isSame(a: usize, b: usize, length: u32): bool {
  if (length < 8) {
    for (let i: u32 = 0; i < length; i++) {
      if (load<u8>(a + i) !== load<u8>(b + i)) return false;
    }
    return true;
  }
  const last = length - 8;
  for (let i: u32 = 0; i < last; i += 8) {
    if (load<u64>(a + i) !== load<u64>(b + i)) return false;
  }
  return load<u64>(a + last) === load<u64>(b + last);
}
