import { hash } from 'node:crypto';
import { expect, it } from 'vitest';
import * as layout from './entry-layout.ts';
import { Hotel } from './hotel.ts';

it('an entry with other fields, or in another layout, has another magic number', () => {
  const { MAGIC, ...rest } = layout;
  const numbers = Object.entries(rest).sort(([a], [b]) => (a < b ? -1 : 1));
  const digest = hash('sha256', JSON.stringify([numbers, Object.keys(Hotel.properties)])).slice(0, 16);
  // of entries in Redis only those with the magic number are read: change it with the digest
  expect([MAGIC.toString(16), digest]).toEqual(['36444548', '183765c3f74293c2']);
});
