/** Access to the keys of an entry, and checks. */

import {
  BODY_LENGTH_AT,
  CERTIFICATION_AT,
  CERTIFICATION_LENGTH_AT,
  CHANNEL_LENGTH_AT,
  FLAGS_AT,
  FROM_DAY_AT,
  FULL_TAG_AT,
  HEADER_BYTES,
  ID_LENGTH_AT,
  MAGIC,
  MAGIC_AT,
  NARROW_TAG_AT,
  NO_DAY,
  PRESENT,
  REGISTRY_LENGTH_AT,
  SHARED_LENGTH_AT,
  TAG_BYTES,
  UNTIL_DAY_AT,
  URL_LENGTH_AT,
} from '../../hotels/entry-layout';
import { FIRST_DAY, MAX_KEY_BYTES as KEY_BYTES, LAST_DAY, MAX_URL_BYTES } from '../constants';

export const MAX_KEY_BYTES: u32 = KEY_BYTES;

/** Returns the length of an entry's key, 0 if it has none in that namespace. */
export function entryKeyLength(entry: usize, namespace: u32): u32 {
  if (namespace === 0) return load<u16>(entry, ID_LENGTH_AT);
  if (namespace === 1) return load<u16>(entry, CHANNEL_LENGTH_AT);
  return load<u8>(entry, REGISTRY_LENGTH_AT);
}

export function entryKey(entry: usize, namespace: u32): usize {
  let key = entry + HEADER_BYTES;
  if (namespace > 0) key += load<u16>(entry, ID_LENGTH_AT);
  if (namespace > 1) key += load<u16>(entry, CHANNEL_LENGTH_AT);
  return key;
}

/** Returns true if this is a key of the entry. */
export function hasKey(entry: usize, namespace: u32, key: usize, length: u32): bool {
  return entryKeyLength(entry, namespace) === length && isSame(entryKey(entry, namespace), key, length);
}

/**
 * Returns true for an entry of a present hotel with storable keys, whose parts lie within it, and whose dates and tags can be
 * shown: each entry in Redis may be forged. `Entry.at` throws for none that is valid.
 */
export function isValid(entry: usize, length: u32): bool {
  if (length < <u32>HEADER_BYTES || load<u32>(entry, MAGIC_AT) !== MAGIC) return false;
  if ((load<u8>(entry, FLAGS_AT) & PRESENT) === 0) return false;
  const idLength = entryKeyLength(entry, 0);
  const channelLength = entryKeyLength(entry, 1);
  const urlLength: u32 = load<u16>(entry, URL_LENGTH_AT);
  if (idLength === 0 || idLength > MAX_KEY_BYTES || channelLength > MAX_KEY_BYTES) return false;
  if (urlLength > <u32>MAX_URL_BYTES) return false;
  const before: u64 =
    <u64>HEADER_BYTES + idLength + channelLength + load<u8>(entry, REGISTRY_LENGTH_AT) + urlLength;
  const bodyLength = load<u32>(entry, BODY_LENGTH_AT);
  const sharedLength = load<u32>(entry, SHARED_LENGTH_AT);
  if (before + bodyLength !== <u64>length || sharedLength > bodyLength) return false;
  const certificationEnd: u64 =
    <u64>load<u32>(entry, CERTIFICATION_AT) + load<u16>(entry, CERTIFICATION_LENGTH_AT);
  return (
    certificationEnd <= <u64>sharedLength &&
    isDay(load<i32>(entry, FROM_DAY_AT)) &&
    isDay(load<i32>(entry, UNTIL_DAY_AT)) &&
    areOfTags(v128.load(entry, NARROW_TAG_AT)) &&
    areOfTags(v128.load(entry, FULL_TAG_AT + TAG_BYTES - 16))
  );
}

function isDay(day: i32): bool {
  return day === NO_DAY || (day >= FIRST_DAY && day <= LAST_DAY);
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
