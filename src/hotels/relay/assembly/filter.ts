/**
 * Names of which a change was heard lately: two Bloom filters (Burton Bloom, Space/time trade-offs in hash coding with
 * allowable errors, CACM 1970) of two bits a name, a young and an old one that change places. What they know may be
 * too much (of 100,000 names, one in 2,000 others), never too little.
 */
import { hashOf } from '../../slab/assembly/hash';
import { FILTER_BYTES, FILTERS } from './layout';

const BITS: u32 = FILTER_BYTES * 8;
let young: usize = FILTERS;
let old: usize = FILTERS + FILTER_BYTES;
/** names in either */
let inYoung: u32 = 0;
let inOld: u32 = 0;

export function addName(namespace: u32, key: usize, length: u32): void {
  const hash = hashOf(namespace, key, length);
  setBit(<u32>hash);
  setBit(<u32>(hash >> 32));
  inYoung++;
}

function setBit(hash: u32): void {
  const bit = hash & (BITS - 1);
  const at = young + (bit >> 3);
  const mask: u8 = 1 << (<u8>bit & 7);
  store<u8>(at, load<u8>(at) | mask);
}

/** The old ones are forgotten, the young ones are the old. */
export function turnNames(): void {
  if (inYoung + inOld === 0) return;
  const emptied = old;
  if (inOld > 0) memory.fill(emptied, 0, FILTER_BYTES);
  old = young;
  young = emptied;
  inOld = inYoung;
  inYoung = 0;
}

/** False when no change of this name was heard of. */
export function mayHaveChanged(namespace: u32, key: usize, length: u32): bool {
  if (inYoung + inOld === 0) return false;
  const hash = hashOf(namespace, key, length);
  return isIn(young, hash) || isIn(old, hash);
}

function isIn(filter: usize, hash: u64): bool {
  return hasBit(filter, <u32>hash) && hasBit(filter, <u32>(hash >> 32));
}

function hasBit(filter: usize, hash: u32): bool {
  const bit = hash & (BITS - 1);
  return ((load<u8>(filter + (bit >> 3)) >> (bit & 7)) & 1) !== 0;
}
