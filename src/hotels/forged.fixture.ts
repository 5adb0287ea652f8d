import { MAX_ENTRY_BYTES } from '../wasm/constants.ts';
import {
  BODY_LENGTH_AT,
  CERTIFICATION_AT,
  CERTIFICATION_LENGTH_AT,
  FROM_DAY_AT,
  FULL_TAG_AT,
  NARROW_TAG_AT,
  SHARED_LENGTH_AT,
  UNTIL_DAY_AT,
  URL_LENGTH_AT,
  VALID_UNTIL_AT,
} from './entry-layout.ts';

type Change = (bytes: Buffer) => Buffer | unknown;

const withDays = (from: number, until: number): Change => {
  return (bytes) => [bytes.writeInt32LE(from, FROM_DAY_AT), bytes.writeInt32LE(until, UNTIL_DAY_AT)];
};
const withTags = (tag: string): Change => {
  return (bytes) => [bytes.write(tag, NARROW_TAG_AT, 'latin1'), bytes.write(tag, FULL_TAG_AT, 'latin1')];
};
/** Makes the reader write the certification anew. */
const expired = (change: Change): Change => {
  return (bytes) => {
    bytes.writeDoubleLE(1, VALID_UNTIL_AT);
    return change(bytes);
  };
};

/** Changes of the entry of a hotel that a client with write access to Redis can make. */
const changes: Record<string, Change> = {
  'days beyond all dates': expired(withDays(2 ** 30, 2 ** 30 + 5)),
  'a day before the year 1': expired(withDays(Date.parse('0001-01-01') / 86_400_000 - 1, 0)),
  'a day after the year 9999': expired(withDays(0, Date.parse('9999-12-31') / 86_400_000 + 1)),
  'a certification in another hotel': expired((bytes) => [
    bytes.writeUInt32LE(5_000, CERTIFICATION_AT),
    bytes.writeUInt16LE(0, CERTIFICATION_LENGTH_AT),
  ]),
  'a certification whose end overflows': expired((bytes) =>
    bytes.writeUInt32LE(2 ** 32 - 1, CERTIFICATION_AT),
  ),
  'a certification of too many bytes': expired((bytes) =>
    bytes.writeUInt16LE(2 ** 16 - 1, CERTIFICATION_LENGTH_AT),
  ),
  'a certification in the part of one view': expired((bytes) => {
    const end = bytes.readUInt32LE(SHARED_LENGTH_AT) + 1;
    bytes.writeUInt32LE(end - bytes.readUInt16LE(CERTIFICATION_LENGTH_AT), CERTIFICATION_AT);
  }),
  'a URL that grows when it is encoded anew': expired((bytes) => {
    const more = 60_000;
    bytes.writeUInt16LE(bytes.readUInt16LE(URL_LENGTH_AT) + more, URL_LENGTH_AT);
    const body = bytes.length - bytes.readUInt32LE(BODY_LENGTH_AT);
    return Buffer.concat([bytes.subarray(0, body), Buffer.alloc(more, 0xff), bytes.subarray(body)]);
  }),
  'more bytes than any hotel': expired((bytes) => {
    const more = MAX_ENTRY_BYTES;
    bytes.writeUInt32LE(bytes.readUInt32LE(BODY_LENGTH_AT) + more, BODY_LENGTH_AT);
    return Buffer.concat([bytes, Buffer.alloc(more, 'x')]);
  }),
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
