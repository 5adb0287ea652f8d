import { expect, test } from 'vitest';
import { toUri } from './iri.ts';

test.each([
  ['https://größe.de/', 'https://xn--gre-6ka8i.de/'],
  ['HTTPS://GRÖSSE.de:8443/Ä?q=ö#ü', 'HTTPS://xn--grsse-kua.de:8443/%C3%84?q=%C3%B6#%C3%BC'],
  ['http://ü:ä@例え.テスト/', 'http://%C3%BC:%C3%A4@xn--r8jz45g.xn--zckzah/'],
  ['https://example.com/😀é', 'https://example.com/%F0%9F%98%80%C3%A9'],
  [' https://example.com/a b.jpg?c d#e f ', 'https://example.com/a%20b.jpg?c%20d#e%20f'],
  // the dot of East Asian keyboards ends a label
  ['https://例え。テスト/', 'https://xn--r8jz45g.xn--zckzah/'],
])('%s becomes %s', (iri, uri) => {
  expect(toUri(iri)).toBe(uri);
});

test.each([
  'https://EXAMPLE.com/a%2fb?c=%C3%A9',
  'https://example.com/a"<>',
  'https://a b/',
  // no valid domain
  'https://xn--ä/',
  'not a uri',
  '',
  // private-use characters, control characters and lone surrogates are invalid in an IRI
  'https://example.com/\ue000\u0085\ud800',
])('%j is unchanged', (text) => {
  expect(toUri(text)).toBe(text);
});

test('blanks within a long IRI are encoded in time in proportion to its length', () => {
  const blanks = 300_000;
  expect(toUri(` https://a/${' '.repeat(blanks)}b `)).toBe(`https://a/${'%20'.repeat(blanks)}b`);
});
