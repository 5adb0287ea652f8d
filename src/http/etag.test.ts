import { describe, expect, it } from 'vitest';
import { matches } from './etag.ts';

describe('If-None-Match', () => {
  it('of maximum length is parsed quickly', () => {
    const before = process.threadCpuUsage();
    for (const text of ['"', 'W/"', 'W/', '"a"', '", "']) matches(text.repeat(4_096 / text.length), 'abc');
    expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(100);
  });
});
