import { describe, expect, it } from 'vitest';
import { CompressedPages } from './compressed-pages.ts';

const page = (text: string) => Buffer.from(text);

describe('compressed pages', () => {
  it('are kept by tag and coding', () => {
    const pages = new CompressedPages(100);
    pages.put('a', 'gzip', page('gzip of a'));
    expect(pages.get('a', 'gzip')?.toString()).toBe('gzip of a');
    expect(pages.get('a', 'br')).toBeUndefined();
    expect(pages.get('b', 'gzip')).toBeUndefined();
  });

  it('are bounded in bytes: the least recently used are dropped', () => {
    const pages = new CompressedPages(10);
    for (const tag of ['a', 'b', 'c']) pages.put(tag, 'gzip', page('333'));
    pages.get('a', 'gzip');
    pages.put('d', 'gzip', page('333'));
    expect(['a', 'b', 'c', 'd'].filter((tag) => pages.get(tag, 'gzip'))).toEqual(['a', 'c', 'd']);
    pages.put('e', 'gzip', page('more than all'));
    expect(pages.get('e', 'gzip')).toBeUndefined();
    for (let i = 0; i < 10; i++) pages.put('f', 'gzip', page('333'));
    expect(['a', 'c', 'd', 'f'].filter((tag) => pages.get(tag, 'gzip'))).toEqual(['c', 'd', 'f']);
  });
});
