import { expect, it } from 'vitest';
import { CompressedPages } from './compressed-pages.ts';

const page = (text: string) => Buffer.from(text);
const BODY = page('body');

it('compressed pages are kept by tag and coding, and used for the same body alone', () => {
  const pages = new CompressedPages(1_000);
  pages.put('a', 'gzip', BODY, page('gzip of a'));
  expect(pages.get('a', 'gzip', BODY)?.toString()).toBe('gzip of a');
  expect(pages.get('a', 'gzip', page('bodY'))).toBeUndefined();
  expect([pages.get('a', 'br', BODY), pages.get('b', 'gzip', BODY)]).toEqual([undefined, undefined]);
});

it('compressed pages are bounded in bytes: the least recently used are dropped', () => {
  // three pages of 700 bytes, with what an entry takes beside them
  const pages = new CompressedPages(3_012);
  const some = page('7'.repeat(700));
  const has = (tag: string) => pages.get(tag, 'gzip', BODY) !== undefined;
  for (const tag of ['a', 'b', 'c']) pages.put(tag, 'gzip', BODY, some);
  has('a');
  pages.put('d', 'gzip', BODY, some);
  expect(['a', 'b', 'c', 'd'].filter(has)).toEqual(['a', 'c', 'd']);
  pages.put('e', 'gzip', BODY, page('7'.repeat(2_713)));
  expect(has('e')).toBe(false);
});
