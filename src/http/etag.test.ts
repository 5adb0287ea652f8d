import { describe, expect, it } from 'vitest';
import { closingOf, matches } from './etag.ts';

describe('If-None-Match', () => {
  it('of maximum length is parsed quickly', () => {
    const before = process.threadCpuUsage();
    for (const text of ['"', 'W/"', 'W/', '"a"', '", "']) matches(text.repeat(4_096 / text.length), 'abc');
    expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(100);
  });
});

describe('an ETag', () => {
  it('is quoted, differs by coding, and each matches', () => {
    const tags = [undefined, 'gzip', 'br', 'zstd'].map((encoding) => `"abc${closingOf(encoding)}`);
    expect(tags).toEqual(['"abc"', '"abc.gzip"', '"abc.br"', '"abc.zstd"']);
    for (const tag of tags) expect(matches(tag, 'abc')).toBe(true);
  });
});
