import { readdirSync } from 'node:fs';
import { expect, it } from 'vitest';

it('no two migrations have the same number, because the second would never be applied', () => {
  const numbers = readdirSync('sql').map((name) => name.slice(0, 3));
  expect(numbers).toContain('001');
  expect(new Set(numbers).size).toBe(numbers.length);
});
