import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '../lib/for-all.fixture.ts';
import { parameterOf, readListQuery } from './query.ts';

describe('a list query', () => {
  it('is accepted or rejected for any bytes, and accepted values are within their bounds', () => {
    const pieces = fc.constantFrom(
      ...['limit', 'offset', 'registry_id', '=', '&', '%', '%3', '+', '1', '9', '-', ';'],
    );
    forAll(fc.array(fc.oneof(pieces, fc.string({ maxLength: 4 })), { maxLength: 12 }), (parts) => {
      const query = readListQuery(parts.join(''));
      if ('error' in query) return;
      expect(query.limit).toBeGreaterThanOrEqual(1);
      expect(query.limit).toBeLessThanOrEqual(100);
      expect(Number.isSafeInteger(query.offset) && query.offset >= 0).toBe(true);
      expect(query.registryId ?? '0').toMatch(/^(0|-?[1-9]\d*)$/);
    });
  });
});

describe('a parameter', () => {
  it('is decoded as a browser encodes it, the first of a repeated one', () => {
    const name = fc.oneof(fc.constantFrom('limit', 'offset', 'limit '), fc.string({ maxLength: 3 }));
    forAll(fc.array(fc.tuple(name, fc.string({ unit: 'grapheme' }))), (pairs) => {
      fc.pre(pairs.every((pair) => pair.every((text) => text.isWellFormed())));
      const parameters = new URLSearchParams(pairs);
      for (const known of ['limit', 'offset'])
        expect(parameterOf(`${parameters}`, known)).toBe(parameters.get(known) ?? undefined);
    });
  });

  it.each([
    ['%6cimi%74=5', '5'],
    ['limit', ''],
    ['a&limit&limit=5', ''],
    ['&&%&%zz=1&limit=1%2B1+1', '1+1 1'],
    ['limit=%zz&limit=5', null],
    ['limit=%ff', null],
    ['limi', undefined],
    ['limits=5', undefined],
    ['limi%7=5', undefined],
    ['xlimit=5', undefined],
    ['x=limit=5', undefined],
  ])('of %s is %j', (query, expected) => {
    expect(parameterOf(query, 'limit')).toBe(expected);
  });
});
