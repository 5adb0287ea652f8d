import { Command } from 'ioredis';
import { expect, it } from 'vitest';
import './reply-bound.ts';

it.each([
  ['loading:1\r\nloading_eta_seconds:0.001\r\n', 'loading:1'],
  ['# Server\r\nredis_version:7.0.15\r\nloading:1\r\n', 'loading:1'],
  ['redis_version:7.0.15\r\nasync_loading:1\r\nloading:0\r\n', 'loading:0'],
  [`loading:0\r\n${'a:b\r\n'.repeat(500_000)}`, 'loading:0'],
])('ioredis learns of INFO only whether the server loads its snapshot', async (info, learned) => {
  const command = new Command('info', [], { replyEncoding: 'utf8' });
  command.resolve(Buffer.from(info));
  expect(await command.promise).toBe(learned);
});
