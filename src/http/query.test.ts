import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { asksForRegistryId, parseQuery, readListQuery } from './query.ts';

const read = (query: string) => readListQuery(parseQuery(query));
const DEFAULTS = { limit: 20, offset: 0, registryId: undefined };

describe('a list query', () => {
  it('returns the first 20 hotels by default', () => {
    expect(read('')).toEqual(DEFAULTS);
  });

  it.each([
    ['limit=1', { limit: 1 }],
    ['limit=100', { limit: 100 }],
    ['limit=007', { limit: 7 }],
    ['offset=999900', { offset: 999_900 }],
    ['offset=99999999999999999999', { offset: Number.MAX_SAFE_INTEGER }],
    ['registry_id=-0042', { registryId: '-42' }],
    ['limit=5&offset=3&registry_id=1', { limit: 5, offset: 3, registryId: '1' }],
    ['%6Cimit=%35', { limit: 5 }],
    ['registry%5Fid=5', { registryId: '5' }],
  ])('%s is read', (query, expected) => {
    expect(read(query)).toEqual({ ...DEFAULTS, ...expected });
  });

  it('ignores unknown parameters, however they are written', () => {
    expect(read('LIMIT=0&Offset=x&&=&=5&%=1&a=%zz&limits=3&%ff=1')).toEqual(DEFAULTS);
  });

  it('uses the first of repeated parameters', () => {
    expect(read('limit=3&limit=0&offset=1&offset=x')).toEqual({ ...DEFAULTS, limit: 3, offset: 1 });
    expect(read('limit=0&limit=3')).toEqual({ error: 'limitOutOfBounds' });
  });

  it.each(['0', '101', '-1', '1.5', '1e1', '0x10', '', '+5', '%205', '5%20', '٥', '%ff', 'abc', '1,2'])(
    'rejects limit=%s',
    (value) => {
      expect(read(`limit=${value}`)).toEqual({ error: 'limitOutOfBounds' });
    },
  );

  it.each(['-1', '1.5', '1e1', '', '%ff', 'abc', '0x10', 'Infinity'])('rejects offset=%s', (value) => {
    expect(read(`offset=${value}`)).toEqual({ error: 'offsetOutOfBounds' });
  });

  it.each(['', '1.5', '1e3', '0x10', '%20', '5%20', '+5', '%ff', 'abc', '--5'])(
    'rejects registry_id=%s, which still needs the scope',
    (value) => {
      const parameters = parseQuery(`registry_id=${value}`);
      expect(asksForRegistryId(parameters)).toBe(true);
      expect(readListQuery(parameters)).toEqual({ error: 'registryIdNotInteger' });
    },
  );

  it('without a value has an empty value', () => {
    expect(read('limit')).toEqual({ error: 'limitOutOfBounds' });
    expect(asksForRegistryId(parseQuery('registry_id'))).toBe(true);
  });

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
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, fc.string({ maxLength: 4 })), { maxLength: 12 }), (parts) => {
        const query = read(parts.join(''));
        if ('error' in query) return;
        expect(query.limit).toBeGreaterThanOrEqual(1);
        expect(query.limit).toBeLessThanOrEqual(100);
        expect(Number.isSafeInteger(query.offset) && query.offset >= 0).toBe(true);
        expect(query.registryId ?? '0').toMatch(/^(0|-?[1-9]\d*)$/);
      }),
    );
  });
});

describe('parameters', () => {
  it('are decoded as a browser encodes them', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.tuple(fc.string(), fc.string()), { selector: ([name]) => name }),
        (pairs) => {
          const query = new URLSearchParams(pairs).toString();
          const expected = new Map(pairs);
          expect(parseQuery(query)).toEqual(expected);
        },
      ),
    );
  });
});
