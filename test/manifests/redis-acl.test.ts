import { hash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { beforeAll, expect, it } from 'vitest';
import { createKey } from '../../src/cli/keys.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { closeAtEnd } from '../support/cleanup.ts';
import { needs } from '../support/needs.ts';
import { ownRedis } from '../support/own-server.ts';
import { addressOf } from '../support/postgres-client.ts';
import { insertKey } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis-server', 'kubectl');

const RULES = fileURLToPath(new URL('../../k8s/components/redis-acl/users.acl', import.meta.url));
const PASSWORD = 'secret of the test';
const HOTELS = Array.from({ length: 20 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}`, registry_id: i }));

let rules: string;
let url: string;
/** may do everything: it observes, and injects faults */
let admin: Redis;

const connect = (user: string, password: string) =>
  new Redis(addressOf(url, { username: user, password }), {
    protocol: 2,
    disableClientInfo: true,
  });
const auditLog = async () => ((await admin.acl('LOG')) as string[][]).map((entry) => entry.join(' '));

beforeAll(async () => {
  rules = (await readFile(RULES, 'utf8')).replace('PASSWORD_SHA256', hash('sha256', PASSWORD));
  ({ url } = await ownRedis(async (_, folder) => {
    const users = join(folder, 'users.acl');
    await writeFile(users, `${rules}\nuser admin on >admin ~* &* +@all\n`);
    return ['--aclfile', users];
  }));
  admin = connect('admin', 'admin');
  closeAtEnd('the connection of the admin', async () => admin.disconnect());
});

it('the service needs every right that the file grants, and no other', async () => {
  const service = await startService({
    workers: 2,
    hotels: HOTELS,
    // without a local cache, every response uses Redis
    env: {
      L1_MAX_BYTES: '0',
      RATE_LIMIT_SCOPE: 'redis',
      REDIS_URL: Object.assign(new URL(url), { username: 'hotel-api', password: PASSWORD }).href,
    },
    redis: false,
  });
  const allWorkers = await AllWorkers.of(service);
  await useAll(service, allWorkers);

  expect(await auditLog()).toEqual([]);
  expect(await service.metrics()).toMatch(/cache_lookups_total{tier="redis",result="hit"} [1-9]/);
  expect(await service.metrics()).toMatch(/redis_invalid_values_total [1-9]/);
  const granted = rules.match(/^user hotel-api .*$/m)![0].match(/(?<=\+)\S+/g)!;
  expect([...granted].sort()).toEqual(await commandsOfTheService());
});

it('these rights permit nothing else', async () => {
  const client = connect('hotel-api', PASSWORD);
  closeAtEnd('a connection with the rights of the service', async () => client.disconnect());
  const rejected = [
    ...['flushall', 'keys *', 'scan 0', 'config get *', 'del 1:h:h1', 'unlink 1:h:h1', 'acl list'],
    ...['shutdown', 'client list', 'subscribe x', 'monitor'],
    // names that do not belong to the service
    ...['set session:1 x', 'mget session:1', 'get x'],
  ].map((line) => line.split(' '));
  const scripts = ["return redis.call('set', 'session:1', 'x')", "return redis.call('flushall')"];
  for (const [command, ...args] of [...rejected, ...scripts.map((script) => ['eval', script, '0'])])
    await expect(client.call(command!, ...args), `${command} ${args.join(' ')}`).rejects.toThrow(
      /NOPERM|The user executing the script can't/i,
    );
  const stranger = connect('default', '');
  stranger.on('error', () => {});
  closeAtEnd('a connection without a user', async () => stranger.disconnect());
  await expect(stranger.call('ping')).rejects.toThrow(/NOAUTH|WRONGPASS/);
});

/**
 * Exercises everything the service does: reads, changes, invalid values, a lost script, a stalled Redis.
 */
async function useAll(service: Service, allWorkers: AllWorkers): Promise<void> {
  const batch = { channel_ids: HOTELS.map(({ channel_id }) => channel_id) };
  const key = await insertKey(service.sql, []);
  for (let round = 0; round < 2; round++) {
    expect((await service.post('/hotels/channel/batch', batch)).json()).toHaveLength(HOTELS.length);
    expect((await service.get('/hotels/registry/3', { key: 'full' })).json()).toMatchObject({ id: 'h3' });
    expect((await service.get('/hotels/nowhere')).status).toBe(404);
  }
  await allWorkers.until('/hotels/h1', status(200), key);
  const rateLimit = { requests: 100, windowMs: 60_000 };
  const limited = await createKey(service.sql, { name: 'limited', scopes: [], expiresAt: null, rateLimit });
  // a worker whose primary is late counts a request by itself
  const counted = async () => {
    expect((await service.get('/hotels/h3', { key: limited.key })).status).toBe(200);
    return admin.keys(`*:l:60000:${limited.id}`);
  };
  await expect.poll(counted).toHaveLength(1);

  await service.sql`update hotels set name = 'changed', channel_id = 'moved' where id = 'h1'`;
  await allWorkers.until('/hotels/channel/moved', named('changed'));
  await service.sql`delete from hotels where id = 'h2'`;
  await allWorkers.until('/hotels/h2', status(404));
  await service.sql`update api_keys set revoked_at = now() where id = (select max(id) from api_keys where scopes = '{}')`;

  for (const name of await admin.keys('*:[hcr]:*')) await admin.set(name, 'not a value of ours');
  expect((await service.post('/hotels/channel/batch', { channel_ids: ['moved', 'C3'] })).json()).toHaveLength(
    2,
  );
  await admin.script('FLUSH');
  await service.sql`update hotels set name = 'without a script' where id = 'h4'`;
  await allWorkers.until('/hotels/h4', named('without a script'));
}

/** Returns every command that a user other than the admin has sent. */
async function commandsOfTheService(): Promise<string[]> {
  const statistics = await admin.info('commandstats');
  const admins = ['acl', 'client', 'config', 'keys', 'script', 'auth', 'hello', 'quit'];
  return [...statistics.matchAll(/^cmdstat_([a-z]+)(?:\|[a-z]+)?:/gm)]
    .map(([, name]) => name!)
    .filter((name, i, all) => !admins.includes(name) && all.indexOf(name) === i)
    .sort();
}
