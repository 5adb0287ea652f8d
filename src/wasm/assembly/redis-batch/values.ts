/**
 * Checks of the values in Redis: entries of hotels and absences, and their labels against the window of src/log/window.ts. The
 * window has the position of the newest known change by hash bucket, then the floor, all as f64.
 */
import { BODY_LENGTH_AT, HEADER_BYTES, MAGIC_AT } from '../../../hotels/entry-layout';
import { entryKeyLength, isSame, magic } from '../arena/entry';
import { putAbsence } from '../arena/store';
import { hashOf, spread } from '../hash';
import { WINDOW, WINDOW_BUCKETS } from '../layout';

const FLOOR: usize = WINDOW + <usize>WINDOW_BUCKETS * 8;

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

/** Returns true if a change of this key after the position `label` is known, or may exist, or if `label` is no number. */
export function isOutdated(namespace: u32, key: usize, length: u32, label: f64): bool {
  // the newest known change of this key, or of another one in its bucket
  const bucket = <u32>hashOf(namespace, key, length) & (WINDOW_BUCKETS - 1);
  const newest = load<f64>(WINDOW + ((<usize>bucket) << 3));
  return !(label >= load<f64>(FLOOR) && label >= newest);
}
