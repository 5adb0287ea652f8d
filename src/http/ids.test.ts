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
});
