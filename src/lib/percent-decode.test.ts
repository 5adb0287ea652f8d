import fc from 'fast-check';
import { expect, it } from 'vitest';
import { forAll } from './for-all.fixture.ts';
import { percentDecode } from './percent-decode.ts';

const byte = fc.integer({ min: 0, max: 255 }).map((value) => `%${value.toString(16).padStart(2, '0')}`);
/** Bytes at the bounds of the forms of UTF-8. */
const bound = fc.constantFrom(
  ...['%7F', '%80', '%8f', '%90', '%9f', '%a0', '%BF', '%c1', '%c2', '%df', '%e0', '%e1', '%ed'],
  ...['%ee', '%ef', '%f0', '%f1', '%f3', '%f4', '%f5', '%ff', '%', '%4', '%zz', '%+1'],
);
const character = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 1 }).map((text) => {
  return text.isWellFormed() ? encodeURIComponent(text) : text;
});

it('a text is decoded as decodeURIComponent decodes it, and is undefined where that throws', () => {
  const texts = fc.array(fc.oneof(byte, bound, bound, bound, character, fc.string({ maxLength: 3 })));
  forAll(texts, (parts) => {
    const text = parts.join('');
    let expected: string | undefined;
    try {
      expected = decodeURIComponent(text);
    } catch {}
    expect(percentDecode(text)).toBe(expected);
  });
});
