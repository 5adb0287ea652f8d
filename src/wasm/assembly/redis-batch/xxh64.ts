/** XXH64 with seed 0 (Yann Collet, https://github.com/Cyan4973/xxHash, doc/xxhash_spec.md). */
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const PRIME_1: u64 = 0x9e3779b185ebca87;
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const PRIME_2: u64 = 0xc2b2ae3d27d4eb4f;
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const PRIME_3: u64 = 0x165667b19e3779f9;
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const PRIME_4: u64 = 0x85ebca77c2b2ae63;
// biome-ignore lint/correctness/noPrecisionLoss: 64 bits in AssemblyScript
const PRIME_5: u64 = 0x27d4eb2f165667c5;

function round(state: u64, lane: u64): u64 {
  return rotl<u64>(state + lane * PRIME_2, 31) * PRIME_1;
}

function merge(hash: u64, state: u64): u64 {
  return (hash ^ round(0, state)) * PRIME_1 + PRIME_4;
}

/** Returns the hash of `length` bytes at `at`. */
export function xxh64(at: usize, length: u32): u64 {
  const end = at + length;
  let hash: u64 = PRIME_5;
  if (length >= 32) {
    let a: u64 = PRIME_1 + PRIME_2;
    let b: u64 = PRIME_2;
    let c: u64 = 0;
    let d: u64 = 0 - PRIME_1;
    do {
      a = round(a, load<u64>(at));
      b = round(b, load<u64>(at, 8));
      c = round(c, load<u64>(at, 16));
      d = round(d, load<u64>(at, 24));
      at += 32;
    } while (at + 32 <= end);
    hash = rotl<u64>(a, 1) + rotl<u64>(b, 7) + rotl<u64>(c, 12) + rotl<u64>(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  }
  hash += length;
  for (; at + 8 <= end; at += 8) {
    hash = rotl<u64>(hash ^ round(0, load<u64>(at)), 27) * PRIME_1 + PRIME_4;
  }
  if (at + 4 <= end) {
    hash = rotl<u64>(hash ^ (<u64>load<u32>(at) * PRIME_1), 23) * PRIME_2 + PRIME_3;
    at += 4;
  }
  for (; at < end; at++) hash = rotl<u64>(hash ^ (<u64>load<u8>(at) * PRIME_5), 11) * PRIME_1;
  hash = (hash ^ (hash >> 33)) * PRIME_2;
  hash = (hash ^ (hash >> 29)) * PRIME_3;
  return hash ^ (hash >> 32);
}
