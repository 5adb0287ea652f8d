import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { forAll } from '../lib/for-all.fixture.ts';
import { parseQuery, readListQuery } from './query.ts';

const read = (query: string) => readListQuery(parseQuery(query));

describe('a list query', () => {
  it('is accepted or rejected for any bytes, and accepted values are within their bounds', () => {
    const pieces = fc.constantFrom(
      'limit',
      'offset',
      'registry_id',
      '=',
      '&',
      '%',
      '%3',
      '+',
      '1',
      '9',
      '-',
      ';',
    );
    forAll(fc.array(fc.oneof(pieces, fc.string({ maxLength: 4 })), { maxLength: 12 }), (parts) => {
      const query = read(parts.join(''));
      if ('error' in query) return;
      expect(query.limit).toBeGreaterThanOrEqual(1);
      expect(query.limit).toBeLessThanOrEqual(100);
      expect(Number.isSafeInteger(query.offset) && query.offset >= 0).toBe(true);
      expect(query.registryId ?? '0').toMatch(/^(0|-?[1-9]\d*)$/);
    });
  });
});

describe('parameters', () => {
  it('are decoded as a browser encodes them', () => {
    forAll(fc.uniqueArray(fc.tuple(fc.string(), fc.string()), { selector: ([name]) => name }), (pairs) => {
      const query = new URLSearchParams(pairs).toString();
      const expected = new Map(pairs);
      expect(parseQuery(query)).toEqual(expected);
    });
  });
});
