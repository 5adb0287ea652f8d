import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decodeParameter, readRegistryId } from './ids.ts';

describe('a path parameter', () => {
  it('is decoded as UTF-8', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (id) => {
        fc.pre(!id.includes('\ufffd') && !id.includes('%'));
        expect(decodeParameter(encodeURIComponent(id))).toBe(id);
        expect(decodeParameter(id)).toBe(id);
      }),
    );
  });

  it('is decoded once if it was encoded twice', () => {
    expect(decodeParameter('a%2525')).toBe('a%25');
  });

  it.each(['%', 'a%', '%4', '%zz', '%ff', '%c3', '%c3%28', '%ed%a0%80', '%f8%88%80%80%80', '\ufffd'])(
    '%s matches nothing',
    (written) => {
      expect(decodeParameter(written)).toBeUndefined();
    },
  );
});

describe('a registry id', () => {
  it.each([
    ['0', '0'],
    ['-0', '0'],
    ['000', '0'],
    ['-000', '0'],
    ['7', '7'],
    ['0500001', '500001'],
    ['-0500001', '-500001'],
    ['100', '100'],
    ['9007199254740993', '9007199254740993'],
    ['99999999999999999999999999', '99999999999999999999999999'],
  ])('%s is %s', (text, id) => {
    expect(readRegistryId(text)).toBe(id);
  });

  it.each(['', '-', '+5', '--5', '1.5', '1.0', '1e3', '0x10', ' 5', '5 ', '5\n', '٥', '5n', '1_000', 'NaN'])(
    '%j is not an integer',
    (text) => {
      expect(readRegistryId(text)).toBeUndefined();
    },
  );

  it('equals the BigInt of the same digits', () => {
    const digits = fc.stringMatching(/^-?0{0,5}\d{1,30}$/);
    fc.assert(
      fc.property(digits, (text) => {
        expect(readRegistryId(text)).toBe(String(BigInt(text)));
      }),
    );
  });

  it('is read in time proportional to its length', () => {
    const zeros = '0'.repeat(1_000_000);
    const startedAtMs = performance.now();
    for (const text of [`${zeros}x`, zeros, `-${zeros}1`, `${'1'.repeat(1_000_000)}x`]) readRegistryId(text);
    // an earlier version took a quarter of an hour
    expect(performance.now() - startedAtMs).toBeLessThan(1_000);
  });
});
