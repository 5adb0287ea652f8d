import { describe, expect, it } from 'vitest';
import { CompressedPages } from './compressed-pages.ts';

const page = (text: string) => Buffer.from(text);

describe('compressed pages', () => {
  it('are kept by tag and coding', () => {
    const pages = new CompressedPages(1_000);
    pages.put('a', 'gzip', page('gzip of a'));
    expect(pages.get('a', 'gzip')?.toString()).toBe('gzip of a');
    expect(pages.get('a', 'br')).toBeUndefined();
    expect(pages.get('b', 'gzip')).toBeUndefined();
  });

  it('are bounded in bytes: the least recently used are dropped', () => {
    // three pages of 700 bytes, with what an entry takes beside them
    const pages = new CompressedPages(3_000);
    const some = page('7'.repeat(700));
    for (const tag of ['a', 'b', 'c']) pages.put(tag, 'gzip', some);
    pages.get('a', 'gzip');
    pages.put('d', 'gzip', some);
    expect(['a', 'b', 'c', 'd'].filter((tag) => pages.get(tag, 'gzip'))).toEqual(['a', 'c', 'd']);
    pages.put('e', 'gzip', page('7'.repeat(2_701)));
    expect(pages.get('e', 'gzip')).toBeUndefined();
    for (let i = 0; i < 10; i++) pages.put('f', 'gzip', some);
    expect(['a', 'c', 'd', 'f'].filter((tag) => pages.get(tag, 'gzip'))).toEqual(['c', 'd', 'f']);
  });
});
