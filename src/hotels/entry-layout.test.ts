import { hash } from 'node:crypto';
import { expect, it } from 'vitest';
import { DAY_MS, FIRST_DAY, LAST_DAY, MAX_URL_BYTES } from '../wasm/constants.ts';
import * as layout from './entry-layout.ts';
import { Hotel } from './hotel.ts';
import { MAX_URI_LENGTH } from './valid-values.ts';

it('an entry with other fields, or in another layout, has another magic number', () => {
  const { MAGIC, ...rest } = layout;
  const numbers = Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1));
  const digest = hash('sha256', JSON.stringify([numbers, Object.keys(Hotel.properties)])).slice(0, 16);
  // of entries in Redis only those with the magic number are read: change it with the digest
  expect([MAGIC.toString(16), digest]).toEqual(['34444548', '819a70f6191bbb46']);
});

it('the limits of the program of the caches are those of the table', () => {
  const days = ['0001-01-01', '9999-12-31'].map((date) => Date.parse(date) / DAY_MS);
  expect([FIRST_DAY, LAST_DAY]).toEqual(days);
  expect(MAX_URL_BYTES).toBe(MAX_URI_LENGTH + '""'.length);
});
