import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { chooseEncoding, compress, mayCompress } from './compression.ts';

describe('Accept-Encoding', () => {
  it.each([
    ['', undefined],
    ['identity', undefined],
    ['deflate', undefined],
    ['compress, identity', undefined],
    ['gzip', 'gzip'],
    ['br', 'br'],
    ['zstd', 'zstd'],
    ['GZIP', 'gzip'],
    ['gzip, deflate, br, zstd', 'zstd'],
    ['gzip, deflate, br', 'br'],
    ['gzip;q=1.0, br;q=0.5, zstd;q=0.1', 'gzip'],
    ['zstd;q=0, br;q=0, gzip', 'gzip'],
    ['gzip;q=0', undefined],
    ['*', 'gzip'],
    ['gzip, *', 'gzip'],
    ['br, *', 'br'],
    ['Zstd;q=0.9, *;q=0.1', 'zstd'],
    ['br;q=0.5, *', 'gzip'],
    ['xbr, *', 'gzip'],
    ['gzip;q=0, *', undefined],
    ['identity, *', undefined],
    ['deflate, *;q=0.5', 'gzip'],
    ['*;q=0', undefined],
    ['identity;q=0', undefined],
    ['gzip;q=0.5, identity;q=0.9', undefined],
    ['gzip;q=0.9, identity;q=0.5', 'gzip'],
    [';;,,q=1', undefined],
    ['gzip;q=banana', undefined],
    ['\u00e9', undefined],
  ])('%j prefers %s', (header, expected) => {
    expect(chooseEncoding(header)).toBe(expected);
  });

  it('of maximum length is parsed quickly', () => {
    const before = process.threadCpuUsage();
    for (const text of ['gzip,', ';q=0.5', ' ', ',', 'a;', 'gzip;q=0.1,'])
      chooseEncoding(text.repeat(4_096 / text.length));
    expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(300);
  });
});

describe('a compressed body', () => {
  const body = Buffer.from(
    JSON.stringify(Array.from({ length: 200 }, (_, i) => ({ id: `h${i}`, name: 'é😀' }))),
  );

  it.each([
    ['gzip', gunzipSync],
    ['br', brotliDecompressSync],
    ['zstd', zstdDecompressSync],
  ] as const)('by %s is smaller and is restored exactly', async (encoding, decompress) => {
    const compressed = await compress(body, encoding);
    expect(compressed.length).toBeLessThan(body.length / 2);
    expect(decompress(compressed)).toEqual(body);
  });
});

it('bodies that wait for compression are bounded', async () => {
  const body = Buffer.alloc(100_000, 'hotel');
  const underWay: Promise<Buffer>[] = [];
  while (mayCompress()) underWay.push(compress(body, 'gzip'));
  expect(underWay).toHaveLength(64);
  await Promise.all(underWay);
  expect(mayCompress()).toBe(true);
});
