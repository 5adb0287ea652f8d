import { describe, expect, it } from 'vitest';
import { chooseEncoding, compress, mayCompress } from './compression.ts';

describe('Accept-Encoding', () => {
  it('of maximum length is parsed quickly', () => {
    const before = process.threadCpuUsage();
    for (const text of ['gzip,', ';q=0.5', ' ', ',', 'a;', 'gzip;q=0.1,'])
      chooseEncoding(text.repeat(4_096 / text.length));
    expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(300);
  });
});

it('bodies that wait for compression are bounded', async () => {
  const body = Buffer.alloc(100_000, 'hotel');
  const underWay: Promise<Buffer>[] = [];
  while (mayCompress()) underWay.push(compress(body, 'gzip', { owner: 'a', over: false }));
  expect(underWay).toHaveLength(64);
  await Promise.all(underWay);
  expect(mayCompress()).toBe(true);
});
