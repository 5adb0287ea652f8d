import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '../lib/for-all.fixture.ts';
import { decodeParameter, readRegistryId } from './ids.ts';

describe('a path parameter', () => {
  it('is decoded as UTF-8', () => {
    forAll(fc.string({ unit: 'grapheme' }), (id) => {
      fc.pre(!id.includes('\ufffd') && !id.includes('%'));
      expect(decodeParameter(encodeURIComponent(id))).toBe(id);
      expect(decodeParameter(id)).toBe(id);
    });
  });
});

describe('a registry id', () => {
  it('equals the BigInt of the same digits', () => {
    const digits = fc.stringMatching(/^-?0{0,5}\d{1,30}$/);
    forAll(digits, (text) => {
      expect(readRegistryId(text)).toBe(String(BigInt(text)));
    });
  });

  it('is read in time proportional to its length', () => {
    const zeros = '0'.repeat(1_000_000);
    const before = process.threadCpuUsage();
    for (const text of [`${zeros}x`, zeros, `-${zeros}1`, `${'1'.repeat(1_000_000)}x`]) readRegistryId(text);
    // an earlier version took a quarter of an hour
    expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(1_000);
  });
});
