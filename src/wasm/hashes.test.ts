import { describe, expect, it } from 'vitest';
import { checksum } from './hashes.ts';

describe('the checksum', () => {
  // the last eight digits that `xxhsum -H64` prints
  it.each([
    ['', 0x51d8e999],
    ['abc', 0xad770999],
    ['Nobody inspects the spammish repetition', 0x8a378bf1],
  ])('of %j is the lower half of its XXH64', (text, expected) => {
    expect(checksum(Buffer.from(text))).toBe(expected);
  });

  it('covers 1 MiB, more than any entry has', () => {
    const long = Buffer.alloc(1024 ** 2, 'hotel');
    const before = checksum(long.subarray(0, 1_000));
    expect(checksum(long)).not.toBe(checksum(long.subarray(1)));
    expect(checksum(long.subarray(0, 1_000))).toBe(before);
  });
});
