import { expect, it } from 'vitest';
import { printable, rowsOf } from './print.ts';

it('control characters become JSON escapes, in tables blanks, and other text is unchanged', () => {
  expect(printable('a\x1b[2Jb\x9b31m\x07\r\0\x7f\u202e')).toBe(
    'a\\u001b[2Jb\\u009b31m\\u0007\\u000d\\u0000\\u007f\\u202e',
  );
  const text = 'Grüße, 酒店 😀\n\tline';
  expect(printable(text)).toBe(text);
  const value = { name: '\x9b\x1b\n\u2028"' };
  expect(JSON.parse(printable(JSON.stringify(value, null, 2)))).toEqual(value);
  expect(rowsOf([{ id: 'long', note: 'two\nlines' }, { id: 'a' }])).toBe('id    note\nlong  two lines\na');
});
