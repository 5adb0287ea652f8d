/**
 * Ghosts of S3-FIFO: hashes of hotels that left the small ring without a second hit, or were dropped from the main
 * ring. A bucket holds four, each a u32 hash and the u32 number of its eviction; a new ghost replaces the oldest. A ghost
 * is valid while fewer ghosts have followed it than the arena holds entries, as in the paper's queue.
 */
import { GHOST_BUCKET_BYTES, ghostBuckets, ghostStart } from '../layout';

let deaths: u32 = 0;

function bucketOf(hash: u64): usize {
  return ghostStart + <usize>(((hash >> 32) * ghostBuckets) >> 32) * GHOST_BUCKET_BYTES;
}

export function remember(hash: u64): void {
  deaths++;
  const bucket = bucketOf(hash);
  let oldest = bucket;
  for (let at = bucket; at < bucket + GHOST_BUCKET_BYTES; at += 8) {
    if (deaths - load<u32>(at, 4) > deaths - load<u32>(oldest, 4)) oldest = at;
  }
  store<u32>(oldest, <u32>hash);
  store<u32>(oldest, deaths, 4);
}

/** Returns true if the hash is among the last `window` ghosts, and removes it. */
export function recall(hash: u64, window: u32): bool {
  const bucket = bucketOf(hash);
  for (let at = bucket; at < bucket + GHOST_BUCKET_BYTES; at += 8) {
    if (load<u32>(at) === <u32>hash && load<u32>(at, 4) !== 0) {
      const isYoung = deaths - load<u32>(at, 4) < window;
      store<u64>(at, 0);
      return isYoung;
    }
  }
  return false;
}
