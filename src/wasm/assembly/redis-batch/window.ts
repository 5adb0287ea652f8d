/**
 * Window of src/log/window.ts, which fills it: the position of the newest known change by hash bucket, then the floor. All
 * are f64.
 */
import { hashOf } from '../hash';
import { WINDOW, WINDOW_BUCKETS } from '../layout';

const FLOOR: usize = WINDOW + <usize>WINDOW_BUCKETS * 8;

/** Returns the position of the newest known change of this key, or of another one in its bucket. */
export function newestChange(namespace: u32, key: usize, length: u32): f64 {
  const bucket = <u32>hashOf(namespace, key, length) & (WINDOW_BUCKETS - 1);
  return load<f64>(WINDOW + ((<usize>bucket) << 3));
}

/** Returns true if a change of this key after the position `label` is known, or may exist, or if `label` is no number. */
export function isOutdated(namespace: u32, key: usize, length: u32, label: f64): bool {
  return !(label >= load<f64>(FLOOR) && label >= newestChange(namespace, key, length));
}
