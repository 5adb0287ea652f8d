import { describe, expect, it } from 'vitest';
import { EventLoop } from '../lib/event-loop.ts';
import { compress, encodingFor, mayCompress } from './compression.ts';

describe('Accept-Encoding', () => {
  it('is parsed up to the length that clients send, and is identity beyond', () => {
    expect(encodingFor(`gzip${', gzip'.repeat(20)}`)).toBe('gzip');
    expect(encodingFor(`gzip${', gzip'.repeat(21)}`)).toBeUndefined();
  });
});

it('bodies that wait for compression are bounded', async () => {
  const body = Buffer.alloc(4 * 1024 * 1024, 'hotel');
  const eventLoop = new EventLoop();
  const underWay: Promise<Buffer>[] = [];
  while (mayCompress(body.length))
    underWay.push(compress(body, 'gzip', { owner: 'a', over: false }, eventLoop));
  expect(underWay).toHaveLength(16);
  await Promise.all(underWay);
  // one of any size may always be compressed
  expect(mayCompress(2 ** 30)).toBe(true);
});
