import { expect, it } from 'vitest';
import { rowsOf } from './print.ts';

it('prints objects as a table, and one object as its names and values', () => {
  const rows = [
    { id: 'a', note: null },
    { id: 'long', note: 'two\nlines' },
  ];
  expect(rowsOf(rows)).toBe('id    note\na     -\nlong  two lines');
  expect(rowsOf({ id: 'a', name: 'A' })).toBe('id    a\nname  A');
  expect(rowsOf({ at: new Date('2026-01-02T03:04:05Z') })).toBe('at  2026-01-02T03:04:05.000Z');
  expect(rowsOf([])).toBe('none');
});
