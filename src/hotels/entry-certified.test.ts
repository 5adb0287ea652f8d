import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '../lib/for-all.fixture.ts';
import { DAY_MS } from './assemble.ts';
import { encodeHotel } from './encode.ts';
import { isCertified, jsonOf, momentOf, row, rowAtMoment } from './entry.fixture.ts';
import { VIEWS } from './entry.ts';
import { rowOf } from './row.fixture.ts';

describe('certified', () => {
  it('is true to the end of the year 9999', () => {
    const dates = { certified_from: '0001-01-01', certified_until: '9999-12-31' };
    const entry = encodeHotel(rowOf({ id: 'h', ...dates }), 1, Date.parse('9999-12-31T23:59:59.999Z'));
    expect(JSON.parse(jsonOf(entry, 'full')).certified).toBe(true);
  });

  it('is valid until validUntilMs and no longer', () => {
    forAll(rowAtMoment, fc.nat(3 * DAY_MS), ([one, nowMs], laterMs) => {
      const { validUntilMs } = encodeHotel(one, 1, nowMs);
      expect(validUntilMs).toBeGreaterThan(nowMs);
      const shown = isCertified(one, nowMs);
      if (validUntilMs < Infinity) {
        expect(isCertified(one, validUntilMs - 1)).toBe(shown);
        expect(isCertified(one, validUntilMs)).toBe(!shown);
      }
      if (nowMs + laterMs < validUntilMs) expect(isCertified(one, nowMs + laterMs)).toBe(shown);
    });
  });

  it('reads at any other time as if the hotel had been encoded then', () => {
    const twoMoments = row.chain((one) => fc.tuple(fc.constant(one), momentOf(one), momentOf(one)));
    fc.assert(
      fc.property(twoMoments, ([one, firstMs, thenMs]) => {
        const refreshed = encodeHotel(one, 1, firstMs).at(thenMs);
        const encodedThen = encodeHotel(one, 1, thenMs);
        for (const view of VIEWS) {
          expect(jsonOf(refreshed, view)).toBe(jsonOf(encodedThen, view));
          expect(refreshed.tag(view)).toBe(encodedThen.tag(view));
        }
        expect(refreshed.validUntilMs).toBe(encodedThen.validUntilMs);
        expect(refreshed.bytes.equals(encodedThen.bytes)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
