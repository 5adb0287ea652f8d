/** Checks of the values in Redis: entries of hotels and absences. */
import { BODY_LENGTH_AT, HEADER_BYTES, MAGIC_AT } from '../../../hotels/entry-layout';
import { entryKeyLength, isSame, magic } from '../arena/record';
import { putAbsence } from '../arena/store';
import { hashOf, spread } from '../hash';

/** Returns true for the entry of an absent hotel with this key alone. */
export function isAbsence(entry: usize, length: u32, namespace: u32, key: usize, keyLength: u32): bool {
  if (length !== <u32>HEADER_BYTES + keyLength || load<u32>(entry, MAGIC_AT) !== magic) return false;
  if (load<u32>(entry, BODY_LENGTH_AT) !== 0 || entryKeyLength(entry, namespace) !== keyLength) return false;
  return isSame(entry + HEADER_BYTES, key, keyLength);
}

/** Stores an absence in the local cache, for half of `ttlMs` to all of it. */
export function keepAbsence(namespace: u32, key: usize, length: u32, nowMs: f64, ttlMs: f64): void {
  putAbsence(namespace, key, length, nowMs, nowMs + ttlMs * spread(hashOf(namespace, key, length)));
}
