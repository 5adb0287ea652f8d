import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { boundReplies } from './reply-bound.ts';

it.each([
  ['loading:1\r\nloading_eta_seconds:0.001\r\n', 'loading:1'],
  ['# Server\r\nredis_version:7.0.15\r\nloading:1\r\n', 'loading:1'],
  ['redis_version:7.0.15\r\nasync_loading:1\r\nloading:0\r\n', 'loading:0'],
  [`loading:0\r\n${'a:b\r\n'.repeat(500_000)}`, 'loading:0'],
])('ioredis learns of INFO only whether the server loads its snapshot', async (info, learned) => {
  const client = new Redis({ lazyConnect: true });
  client.info = async () => info;
  boundReplies(client);
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  void client.info((error, reply) => (error ? reject(error) : resolve(reply)));
  expect(await promise).toBe(learned);
});
