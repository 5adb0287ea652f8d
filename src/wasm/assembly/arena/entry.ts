/** Entries, wherever they are in the memory (layout: hotels/entry-layout.ts). */
import {
  BETWEEN_LENGTH_AT,
  BODY_LENGTH_AT,
  CERTIFIED_FROM_AT,
  CERTIFIED_UNTIL_AT,
  HEAD_LENGTH_AT,
  HEADER_BYTES,
  KEY_LENGTHS_AT,
  MAGIC_AT,
  NARROW_TAG_AT,
  OTHER_LENGTH_AT,
  SHARED_LENGTH_AT,
  SHOWN_AT,
  TAG_BYTES,
  URL_LENGTH_AT,
} from '../../../hotels/entry-layout';
import { MAX_KEY_BYTES as KEY_BYTES } from '../../constants';
import { hashOf } from '../hash';

export const MAX_KEY_BYTES: u32 = KEY_BYTES;
/** Tags of both views. */
const TAGS_BYTES: u32 = 2 * TAG_BYTES;
/** Length of `true`, and of `true` and `false` together. */
const TRUE_LENGTH: u32 = 4;
const FLAGS_LENGTH: u32 = 9;
/** Maximum length of what follows the head of a body that has other values. A valid hotel has a fraction of it. */
const MAX_END_LENGTH: u32 = 8_192;

export let magic: u32 = 0;

/** Takes the magic number of valid entries. */
export function setMagic(value: u32): void {
  magic = value;
}

/** Returns the address of the body of an entry of `length` bytes. */
export function bodyOf(entry: usize, length: u32): usize {
  return entry + length - load<u32>(entry, OTHER_LENGTH_AT) - load<u32>(entry, BODY_LENGTH_AT);
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

/** Returns the hash of an entry's id. */
export function idHashOf(entry: usize): u64 {
  return hashOf(0, entryKey(entry, 0), entryKeyLength(entry, 0));
}

/**
 * Returns true for an entry of a present hotel with storable keys, whose parts lie within it, also those of the other body, and
 * whose tags can be shown: each entry in Redis may be forged.
 */
export function isValid(entry: usize, length: u32): bool {
  if (length < <u32>HEADER_BYTES || load<u32>(entry, MAGIC_AT) !== magic) return false;
  let before: u64 = <u64>HEADER_BYTES;
  for (let namespace: u32 = 0; namespace < 3; namespace++) {
    const keyLength = entryKeyLength(entry, namespace);
    if (keyLength > MAX_KEY_BYTES) return false;
    before += keyLength;
  }
  const bodyLength = load<u32>(entry, BODY_LENGTH_AT);
  const otherLength = load<u32>(entry, OTHER_LENGTH_AT);
  return (
    entryKeyLength(entry, 0) > 0 &&
    bodyLength > 0 &&
    before + bodyLength + otherLength === <u64>length &&
    load<u32>(entry, SHARED_LENGTH_AT) <= bodyLength &&
    areTags(entry + NARROW_TAG_AT) &&
    (otherLength === 0 || isExchangeable(entry, length))
  );
}

/** Returns true if the values of the part behind the body can be exchanged with those in the body. */
function isExchangeable(entry: usize, length: u32): bool {
  const headLength = load<u32>(entry, HEAD_LENGTH_AT);
  const flagLength = flagLengthOf(entry);
  const lengths = flagLength + load<u16>(entry, BETWEEN_LENGTH_AT) + load<u16>(entry, URL_LENGTH_AT);
  const otherLength = load<u32>(entry, OTHER_LENGTH_AT);
  return (
    <u64>headLength + lengths <= load<u32>(entry, SHARED_LENGTH_AT) &&
    load<u32>(entry, BODY_LENGTH_AT) - headLength <= MAX_END_LENGTH &&
    otherLength <= MAX_END_LENGTH &&
    otherLength >= TAGS_BYTES + FLAGS_LENGTH - flagLength &&
    areTags(entry + length - TAGS_BYTES)
  );
}

/** Lets the body of a valid entry of `length` bytes show whether the hotel is certified at `wallMs`. */
export function showAt(entry: usize, length: u32, wallMs: f64): void {
  const isCertified =
    wallMs >= load<f64>(entry, CERTIFIED_FROM_AT) && wallMs < load<f64>(entry, CERTIFIED_UNTIL_AT);
  if (isCertified !== isShown(entry) && load<u32>(entry, OTHER_LENGTH_AT) !== 0)
    exchangeValues(entry, length);
}

/** Returns true if the body shows the hotel as certified. */
function isShown(entry: usize): bool {
  return load<u16>(entry, SHOWN_AT) !== 0;
}

/** Returns the length of the value of `certified`. */
function flagLengthOf(entry: usize): u32 {
  return isShown(entry) ? TRUE_LENGTH : FLAGS_LENGTH - TRUE_LENGTH;
}

/** Exchanges the values in the body with those behind it, and the tags. */
function exchangeValues(entry: usize, length: u32): void {
  const body = bodyOf(entry, length);
  const bodyLength = load<u32>(entry, BODY_LENGTH_AT);
  const flagLength = flagLengthOf(entry);
  const urlLength = load<u16>(entry, URL_LENGTH_AT);
  const otherFlagLength = FLAGS_LENGTH - flagLength;
  const otherUrlLength = load<u32>(entry, OTHER_LENGTH_AT) - TAGS_BYTES - otherFlagLength;
  const flag = body + load<u32>(entry, HEAD_LENGTH_AT);
  const url = flag + flagLength + load<u16>(entry, BETWEEN_LENGTH_AT);
  const otherFlag = body + bodyLength;
  exchange(url, urlLength, otherFlag + otherFlagLength, otherUrlLength);
  exchange(flag, flagLength, otherFlag + otherUrlLength - urlLength, otherFlagLength);
  const otherTags = entry + length - TAGS_BYTES;
  for (let at: usize = 0; at < TAGS_BYTES; at += 8) {
    const tags = load<u64>(entry + at, NARROW_TAG_AT);
    store<u64>(entry + at, load<u64>(otherTags + at), NARROW_TAG_AT);
    store<u64>(otherTags + at, tags);
  }
  const more = otherFlagLength + otherUrlLength - flagLength - urlLength;
  store<u32>(entry, bodyLength + more, BODY_LENGTH_AT);
  store<u32>(entry, load<u32>(entry, SHARED_LENGTH_AT) + more, SHARED_LENGTH_AT);
  store<u32>(entry, load<u32>(entry, OTHER_LENGTH_AT) - more, OTHER_LENGTH_AT);
  store<u16>(entry, <u16>otherUrlLength, URL_LENGTH_AT);
  store<u16>(entry, isShown(entry) ? 0 : 1, SHOWN_AT);
}

/** Exchanges two pieces of memory, of which `b` is behind `a`. What is between them moves if they differ in length. */
function exchange(a: usize, aLength: u32, b: usize, bLength: u32): void {
  const end = b + bLength;
  reverse(a, end);
  reverse(a, a + bLength);
  reverse(a + bLength, end - aLength);
  reverse(end - aLength, end);
}

function reverse(start: usize, end: usize): void {
  while (start < --end) {
    const first = load<u8>(start);
    store<u8>(start++, load<u8>(end));
    store<u8>(end, first);
  }
}

/** Returns true if the tags of both views, one after the other, are characters of base64url. */
function areTags(tags: usize): bool {
  return areOfTags(v128.load(tags)) && areOfTags(v128.load(tags + TAGS_BYTES - 16));
}

/** Returns true if each of 16 bytes is a character of base64url. */
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
