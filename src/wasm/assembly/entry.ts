/** Access to the keys of an entry, and checks. */

import {
  BODY_LENGTH_AT,
  CHANNEL_LENGTH_AT,
  FLAGS_AT,
  HEADER_BYTES,
  ID_LENGTH_AT,
  PRESENT,
  REGISTRY_LENGTH_AT,
  SHARED_LENGTH_AT,
  URL_LENGTH_AT,
} from '../../hotels/entry-layout';
import { MAX_KEY_BYTES as KEY_BYTES } from '../constants';

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

/** Returns true for an entry of a present hotel with consistent lengths and storable keys. */
export function isValid(entry: usize, length: u32): bool {
  if (length < <u32>HEADER_BYTES || (load<u8>(entry, FLAGS_AT) & PRESENT) === 0) return false;
  const idLength = entryKeyLength(entry, 0);
  const channelLength = entryKeyLength(entry, 1);
  if (idLength === 0 || idLength > MAX_KEY_BYTES || channelLength > MAX_KEY_BYTES) return false;
  const before: u64 =
    <u64>HEADER_BYTES +
    idLength +
    channelLength +
    load<u8>(entry, REGISTRY_LENGTH_AT) +
    load<u16>(entry, URL_LENGTH_AT);
  const bodyLength = load<u32>(entry, BODY_LENGTH_AT);
  return before + bodyLength === <u64>length && load<u32>(entry, SHARED_LENGTH_AT) <= bodyLength;
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
