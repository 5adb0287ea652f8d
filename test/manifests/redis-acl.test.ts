import { hash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Redis } from 'ioredis';
import { beforeAll, expect, it } from 'vitest';
import { createKey } from '../../src/cli/keys.ts';
import { read } from '../documents/files.ts';
import { untilApplied } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { ownRedis } from '../support/own-server.ts';
import { addressOf } from '../support/postgres-client.ts';
import { redisClient } from '../support/redis-use.ts';
import { startService } from '../support/service.ts';

await needs('redis-server', 'kubectl');

const PASSWORD = 'secret of the test';
const HOTELS = Array.from({ length: 20 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}`, registry_id: i }));

let rules: string;
let url: string;
/** may do everything: it observes, and injects faults */
let admin: Redis;

const connect = (user: string, password: string) =>
  redisClient(addressOf(url, { username: user, password }), { disableClientInfo: true });
const auditLog = async () => ((await admin.acl('LOG')) as string[][]).map((entry) => entry.join(' '));

beforeAll(async () => {
  rules = read('k8s/components/redis-acl/users.acl').replace('PASSWORD_SHA256', hash('sha256', PASSWORD));
  ({ url } = await ownRedis(async (_, folder) => {
    const users = join(folder, 'users.acl');
    await writeFile(users, `${rules}\nuser admin on >admin ~* &* +@all\n`);
    return ['--aclfile', users];
  }));
  admin = connect('admin', 'admin');
});

it('the service needs every right that the file grants, and no other', async () => {
  const service = await startService({
    hotels: HOTELS,
    // without a local cache, every response uses Redis
    env: {
      L1_MAX_BYTES: '0',
      RATE_LIMIT_SCOPE: 'redis',
      REDIS_URL: Object.assign(new URL(url), { username: 'hotel-api', password: PASSWORD }).href,
    },
    redis: false,
  });
  const readHotels = async () => {
    const batch = { channel_ids: HOTELS.map(({ channel_id }) => channel_id) };
    expect((await service.post('/hotels/channel/batch', batch)).json()).toHaveLength(HOTELS.length);
    expect((await service.get('/hotels/registry/3')).json()).toMatchObject({ id: 'h3' });
    expect((await service.get('/hotels/nowhere')).status).toBe(404);
  };
  await readHotels();
  await service.sql`update hotels set name = 'changed' where id = 'h3'`;
  await untilApplied(service);
  await readHotels();
  for (const name of await admin.keys('*:[hcr]:*')) await admin.set(name, 'not a value of ours');
  await readHotels();

  const rateLimit = { requests: 100, windowMs: 60_000 };
  const limited = await createKey(service.sql, { name: 'limited', scopes: [], expiresAt: null, rateLimit });
  // a worker whose primary is late counts a request by itself
  const counted = async () => {
    expect((await service.get('/hotels/h3', { key: limited.key })).status).toBe(200);
    return admin.keys(`*:l:60000:${limited.id}`);
  };
  await expect.poll(counted).toHaveLength(1);

  const granted = rules.match(/^user hotel-api .*$/m)![0].match(/(?<=\+)\S+/g)!;
  await expect.poll(commandsOfTheService).toEqual(granted.sort());
  expect(await auditLog()).toEqual([]);
  expect(await service.metric('hotel_api_redis_invalid_values_total')).toBeGreaterThan(0);
});

it('these rights permit no name that is not of the service, and no other user anything', async () => {
  const client = connect('hotel-api', PASSWORD);
  const rejected = [
    ...['flushall', 'scan 0', 'del 1:h:h1', 'set session:1 x', 'mget session:1', 'get x'].map((line) =>
      line.split(' '),
    ),
    ['eval', "return redis.call('set', 'session:1', 'x')", '0'],
  ];
  for (const [command, ...args] of rejected)
    await expect(client.call(command!, ...args), `${command} ${args.join(' ')}`).rejects.toThrow(
      /NOPERM|The user executing the script can't/i,
    );
  const stranger = connect('default', '');
  await expect(stranger.call('ping')).rejects.toThrow(/NOAUTH|WRONGPASS/);
});

/** Returns every command that a user other than the admin has sent. */
async function commandsOfTheService(): Promise<string[]> {
  const statistics = await admin.info('commandstats');
  const admins = ['acl', 'client', 'config', 'keys', 'auth', 'hello', 'quit'];
  return [...statistics.matchAll(/^cmdstat_([a-z]+)(?:\|[a-z]+)?:/gm)]
    .map(([, name]) => name!)
    .filter((name, i, all) => !admins.includes(name) && all.indexOf(name) === i)
    .sort();
}
