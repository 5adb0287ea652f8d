/**
 * Keyed hash after wyhash (Wang Yi, final version 4, with its multiplication for machines without 64 by 64 to 128
 * bits). Seed and secrets are random for each start of the service, so that clients cannot choose keys that collide.
 */
let seed: u64 = 0;
let secret1: u64 = 0;
let secret2: u64 = 0;
let secret3: u64 = 0;

export function seedHash(a: u64, b: u64, c: u64, d: u64): void {
  seed = a;
  secret1 = b | 1;
  secret2 = c | 1;
  secret3 = d | 1;
}

function fold(a: u64, b: u64): u64 {
  const aLow: u64 = a & 0xffffffff;
  const aHigh: u64 = a >> 32;
  const bLow: u64 = b & 0xffffffff;
  const bHigh: u64 = b >> 32;
  return rotr<u64>(aHigh * bLow, 32) ^ (aHigh * bHigh) ^ rotr<u64>(aLow * bHigh, 32) ^ (aLow * bLow);
}

/** Returns the hash of a key in a namespace. The index uses its upper 32 bits, the ghosts use both halves. */
export function hashOf(namespace: u32, key: usize, length: u32): u64 {
  let state: u64 = seed + secret3 * (namespace + 1);
  let a: u64 = 0;
  let b: u64 = 0;
  if (length > 16) {
    let at = key;
    const last = key + length - 16;
    while (at < last) {
      state = fold(load<u64>(at) ^ secret1, load<u64>(at, 8) ^ state);
      at += 16;
    }
    a = load<u64>(last);
    b = load<u64>(last, 8);
  } else if (length >= 8) {
    a = load<u64>(key);
    b = load<u64>(key + length - 8);
  } else if (length >= 4) {
    a = load<u32>(key);
    b = load<u32>(key + length - 4);
  } else if (length > 0) {
    a =
      ((<u64>load<u8>(key)) << 16) | ((<u64>load<u8>(key + (length >> 1))) << 8) | load<u8>(key + length - 1);
  }
  return fold(secret1 ^ length, fold(a ^ secret2, b ^ state));
}

/** Returns a number from 0.5 to below 1, chosen by the hash of a key. */
export function spread(hash: u64): f64 {
  return 0.5 + <f64>(<u32>hash >> 16) / 131_072;
}
