/** The calls that ../relay.ts and ../../checksum.ts make. */
import { seedHash } from '../../slab/assembly/hash';
import { GAPS, INPUT, INPUT_BYTES, RESULT } from '../../slab/assembly/layout';
import { askFor, point } from './ask';
import { noteChange, turnChanges } from './changes';
import {
  COMMAND,
  OUTPUT,
  OUTPUT_BYTES,
  PLACES,
  POINTERS,
  POINTERS_BYTES,
  PREFIX,
  REPLY,
  SCRATCH,
  STREAMED,
} from './layout';
import { beginStream, chunkStart, takeChunk } from './stream';
import { xxh64 } from './xxh64';

export {
  askFor,
  beginStream,
  COMMAND,
  chunkStart,
  GAPS,
  INPUT,
  INPUT_BYTES,
  OUTPUT,
  OUTPUT_BYTES,
  PLACES,
  POINTERS,
  POINTERS_BYTES,
  PREFIX,
  point,
  REPLY,
  RESULT,
  SCRATCH,
  STREAMED,
  takeChunk,
  turnChanges,
};

export function init(a: u64, b: u64, c: u64, d: u64): void {
  seedHash(a, b, c, d);
}

/** A change was heard of what the key of `length` bytes at INPUT names; `version` 0 where it carries none. */
export function note(namespace: u32, length: u32, version: f64): void {
  noteChange(namespace, INPUT, length, version);
}

/** The lower half of the hash of `length` bytes at REPLY. */
export function checksum(length: u32): u32 {
  return <u32>xxh64(REPLY, length);
}
