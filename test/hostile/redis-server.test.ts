import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { freshRedis } from '../support/database.ts';
import { hotelBody, hotelRow, requestsOf } from '../support/known-hotels.ts';
import { needs } from '../support/needs.ts';
import { residentMiB, workersOf } from '../support/processes.ts';
import { FaultProxy } from '../support/proxy.ts';
import { untilRedisServes } from '../support/redis-use.ts';
import { changeKey, insertKey } from '../support/rows.ts';
import { type Service, startBeside, startService, stopAfterTest } from '../support/service.ts';
import { ALL_ANSWERED, SteadyLoad } from '../support/steady-load.ts';

await needs('redis');

const HOTELS = 50;
const BATCH = { channel_ids: Array.from({ length: HOTELS }, (_, i) => `CH-${i}`) };
/** Without a local cache every request reads Redis; a busy machine answers late. */
const ENV = { L1_MAX_BYTES: '0', RATE_LIMIT_SCOPE: 'redis', DATABASE_TIMEOUT_MS: '5000' };
/** Forged replies of an attack. */
const ENOUGH = 20;
/** More than any bound lets through. */
const ENDLESS_BYTES = 16 * 1024 * 1024;
/** Memory for replies of an attack: several at once, of 8 MiB and less. */
const GROWTH_MIB = 120;

let proxy: FaultProxy;
let service: Service;
let pids: number[];

beforeAll(async () => {
  const redis = await freshRedis();
  proxy = await FaultProxy.before(redis.url);
  service = await startService({
    workers: 2,
    hotels: Array.from({ length: HOTELS }, (_, i) => hotelRow(i)),
    redisDatabase: { ...redis, url: proxy.url },
    env: ENV,
  });
  pids = await workersOf(service, 2);
});

/** Requests a hotel with a new key, which is read from Redis and counted there; returns the key. */
async function requestWithNewKey(): Promise<string> {
  const key = await insertKey(service.sql, []);
  await changeKey(service.sql, key, { rate_limit_requests: 100, rate_limit_window_s: 3_600 });
  expect((await service.get('/hotels/chaos-1', { key })).status).toBe(200);
  return key;
}

/** Resolves when a batch is read from Redis, and the primary counts there. */
async function untilRedisIsUsed(): Promise<void> {
  await untilRedisServes(service, BATCH);
  const counts = async () => {
    const key = await requestWithNewKey();
    return service.redis!.keys(`*:l:*:test-${hashOf(key).slice(0, 12)}`);
  };
  await expect.poll(counts).toHaveLength(1);
}

/** Replies to commands before a connection is ready. */
const isHandshake = (reply: Buffer) =>
  reply.includes('redis_version') || reply.equals(Buffer.from('+OK\r\n'));

/** What a hostile server sends in place of a reply; src/redis/lying-replies.test.ts has replies that only lie. */
const ATTACKS: Record<string, (reply: Buffer) => (string | Buffer)[]> = {
  'a second reply of null': (reply) => [reply, '$-1\r\n'],
  'a reply of null before the reply': (reply) => ['*-1\r\n', reply],
  'a thousand replies': (reply) => [reply, '+OK\r\n'.repeat(1_000)],
  'a push of null': (reply) => ['>1\r\n_\r\n', reply],
  'a push of a message': (reply) => ['>1\r\n$7\r\nmessage\r\n', reply],
  'null of RESP3': (reply) => [reply, '_\r\n'],
  'bytes of another protocol': () => [Buffer.from('160301020001000100', 'hex'), '\r\n\r\n'],
  'an array of 33 million values': () => ['*33554431\r\n'],
  'arrays of 33 million values in each other': () => ['*1\r\n', '*33554431\r\n'.repeat(100)],
  'a hundred thousand nested arrays': () => ['*1\r\n'.repeat(100_000)],
  'half a million empty values': () => ['*500000\r\n', '$0\r\n\r\n'.repeat(500_000)],
  'a line without an end': () => ['+', Buffer.alloc(ENDLESS_BYTES, 'x')],
  'an array of length -5': () => ['*-5\r\n'],
};

/** Those that are tried in the handshake of a connection too. */
const IN_HANDSHAKE = ['a second reply of null', 'a push of null', 'an array of 33 million values'];

describe.each([
  ['to each command', isHandshake, Object.keys(ATTACKS)],
  ['to each command and in each handshake', () => false, IN_HANDSHAKE],
] as const)('a Redis that sends %s', (_, isSpared, names) => {
  it.each(names.map((name) => [name, ATTACKS[name]!] as const))(
    '%s ends no process, fails no request, and is used afterwards',
    async (_, forge) => {
      await untilRedisIsUsed();
      const all = [service.pid, ...pids];
      const before = await residentMiB(all, 'VmHWM');
      let forged = 0;
      proxy.forge = (reply) => {
        if (isSpared(reply)) return reply;
        forged++;
        return Buffer.concat(forge(reply).map((part) => Buffer.from(part)));
      };
      const load = new SteadyLoad(service, requestsOf(HOTELS));
      while (forged < ENOUGH) {
        await requestWithNewKey();
        await load.answers(10);
      }
      proxy.forge = (reply) => reply;
      await untilRedisIsUsed();
      expect(await load.stop()).toMatchObject(ALL_ANSWERED);
      expect((await service.workerPids()).sort()).toEqual(pids);
      expect((await residentMiB(all, 'VmHWM')) - before).toBeLessThan(GROWTH_MIB);
    },
  );
});

it('a service that starts beside a hostile Redis becomes ready, and uses it afterwards', async () => {
  proxy.forge = (reply) => Buffer.concat([Buffer.from('>1\r\n_\r\n'), reply]);
  const other = stopAfterTest(await startBeside(service, { env: ENV }));
  expect((await other.get('/hotels/chaos-1')).text).toBe(hotelBody(1));
  proxy.forge = (reply) => reply;
  await untilRedisServes(other, BATCH);
});
