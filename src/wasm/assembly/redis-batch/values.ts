/** Checks of the values in Redis: entries of hotels and absences. */
import {
  FLAGS_AT,
  FROM_DAY_AT,
  HEADER_BYTES,
  MAGIC,
  MAGIC_AT,
  NO_DAY,
  PRESENT,
  UNTIL_DAY_AT,
  VALID_UNTIL_AT,
} from '../../../hotels/entry-layout';
import { DAY_MS } from '../../constants';
import { putAbsence } from '../arena/store';
import { entryKeyLength, isSame } from '../entry';
import { hashOf, spread } from '../hash';

/** Returns true for the entry of an absent hotel with this key alone. */
export function isAbsence(entry: usize, length: u32, namespace: u32, key: usize, keyLength: u32): bool {
  if (length !== <u32>HEADER_BYTES + keyLength || load<u32>(entry, MAGIC_AT) !== MAGIC) return false;
  if ((load<u8>(entry, FLAGS_AT) & PRESENT) !== 0 || entryKeyLength(entry, namespace) !== keyLength)
    return false;
  return isSame(entry + HEADER_BYTES, key, keyLength);
}

/** Stores an absence in the local cache, for half of `ttlMs` to all of it. */
export function keepAbsence(namespace: u32, key: usize, length: u32, nowMs: f64, ttlMs: f64): void {
  putAbsence(namespace, key, length, nowMs, nowMs + ttlMs * spread(hashOf(namespace, key, length)));
}

/** Returns whether an entry reads as stored at `wallMs`, by the rules of `at` in entry.ts. */
export function isValidAt(entry: usize, wallMs: f64): bool {
  const validUntil = load<f64>(entry, VALID_UNTIL_AT);
  if (wallMs >= validUntil) return false;
  const from = load<i32>(entry, FROM_DAY_AT);
  const until = load<i32>(entry, UNTIL_DAY_AT);
  if (from === NO_DAY || until === NO_DAY || from > until) return true;
  const fromMs = <f64>from * <f64>DAY_MS;
  if (validUntil === fromMs) return true;
  return wallMs >= (validUntil === Infinity ? (<f64>until + 1) * <f64>DAY_MS : fromMs);
}
