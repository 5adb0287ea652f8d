import { MAX_ENTRY_BYTES } from '../wasm/constants.ts';
import {
  BODY_LENGTH_AT,
  FULL_TAG_AT,
  HEAD_LENGTH_AT,
  KEY_LENGTHS_AT,
  NARROW_TAG_AT,
  OTHER_LENGTH_AT,
  SHARED_LENGTH_AT,
  TAG_BYTES,
} from './entry-layout.ts';

type Change = (bytes: Buffer) => Buffer | unknown;

const withTags = (tag: string): Change => {
  return (bytes) => [bytes.write(tag, NARROW_TAG_AT, 'latin1'), bytes.write(tag, FULL_TAG_AT, 'latin1')];
};

const withOther = (bytes: Buffer, other: Buffer): Buffer => {
  bytes.writeUInt32LE(other.length, OTHER_LENGTH_AT);
  return Buffer.concat([bytes, other]);
};

const ofOther = (change: Change): Change => {
  return (bytes) => forged(withOther(bytes, Buffer.alloc(4 * TAG_BYTES, 'x')), change);
};

/** Changes of the entry of a hotel that a client with write access to Redis can make. */
const changes: Record<string, Change> = {
  'a shared part that ends behind the body': (bytes) =>
    bytes.writeUInt32LE(bytes.readUInt32LE(BODY_LENGTH_AT) + 1, SHARED_LENGTH_AT),
  'a key that is longer than any': (bytes) => bytes.writeUInt16LE(1_021, KEY_LENGTHS_AT + 2),
  'a body longer than its value': (bytes) => bytes.writeUInt32LE(2 ** 32 - 1, BODY_LENGTH_AT),
  'more bytes than any hotel': (bytes) => {
    const more = MAX_ENTRY_BYTES;
    bytes.writeUInt32LE(bytes.readUInt32LE(BODY_LENGTH_AT) + more, BODY_LENGTH_AT);
    return Buffer.concat([bytes, Buffer.alloc(more, 'x')]);
  },
  'a certification behind the shared part': ofOther((bytes) =>
    bytes.writeUInt32LE(bytes.readUInt32LE(SHARED_LENGTH_AT), HEAD_LENGTH_AT),
  ),
  'other values without room for tags': (bytes) => withOther(bytes, Buffer.alloc(2 * TAG_BYTES + 3, 'x')),
  'other values longer than those of any hotel': (bytes) => withOther(bytes, Buffer.alloc(8_193, 'x')),
  'a header in the tags of the other values': (bytes) =>
    withOther(bytes, Buffer.concat([Buffer.alloc(3 * TAG_BYTES, 'x'), Buffer.from('\r\nx-evil: 1;')])),
  'a header in its tags': withTags('\r\nx-evil: 1;'),
  'a quote in its tags': withTags('abcdefghijk"'),
};

/** Names of the forgeries, and the functions that return the forged bytes of an entry. */
export const FORGERIES = Object.entries(changes).map(
  ([name, change]): [string, (original: Buffer) => Buffer] => [name, (original) => forged(original, change)],
);

/** Returns a changed copy. */
export function forged(original: Buffer, change: Change): Buffer {
  const bytes = Buffer.from(original);
  const returned = change(bytes);
  return Buffer.isBuffer(returned) ? returned : bytes;
}
