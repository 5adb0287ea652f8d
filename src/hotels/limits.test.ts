import { expect, it } from 'vitest';
import { FIRST_DAY, LAST_DAY, MAX_URL_BYTES } from '../wasm/constants.ts';
import { DAY_MS } from './assemble.ts';
import { MAX_URI_LENGTH } from './valid-values.ts';

it('the limits of the program of the caches are those of the table', () => {
  const days = ['0001-01-01', '9999-12-31'].map((date) => Date.parse(date) / DAY_MS);
  expect([FIRST_DAY, LAST_DAY]).toEqual(days);
  expect(MAX_URL_BYTES).toBe(MAX_URI_LENGTH + '""'.length);
});
