/** Exports for src/wasm/id-hash.ts: the hash by which the other modules tell keys apart. */
import { hashOf, seedHash } from '../hash';

/** The hash of the last call, u64. */
export const RESULT: usize = 8;
/** Space for an id of 255 characters in UTF-8. */
export const INPUT: usize = 64;
export const INPUT_BYTES: u32 = 1020;

export function init(a: u64, b: u64, c: u64, d: u64): void {
  seedHash(a, b, c, d);
}

/** Hashes the key of `length` bytes at INPUT. */
export function hash(namespace: u32, length: u32): void {
  store<u64>(RESULT, hashOf(namespace, INPUT, length));
}
