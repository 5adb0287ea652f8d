import { describe, expect, it } from 'vitest';
import { matches } from './etag.ts';

describe('If-None-Match', () => {
  it.each([
    ['"abc"', true],
    ['W/"x", W/"abc.gzip"', true],
    ['"abcd", "abc.br"', true],
    ['*', true],
    ['"abcd", "xabc", abc, "abc', false],
    ['', false],
  ])('%s matches the tag abc: %s', (header, expected) => {
    expect(matches(header, 'abc')).toBe(expected);
  });
});
