import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import { encodeKey } from '../../src/auth/key-record.ts';
import { FORGERIES } from '../../src/hotels/forged.fixture.ts';
import { MacSecret } from '../../src/lib/mac.ts';
import { errorsIn } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { insertKey } from '../support/rows.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('redis');

/** A label above any that the test reaches: no change makes the value outdated. */
const FUTURE = 1e15;

let service: Service;
/** an instance beside it, which loads keys into Redis that no worker of `service` has read */
let other: Service;

beforeAll(async () => {
  const hotels = Array.from({ length: 20 }, (_, i) => ({
    id: `h${i}`,
    channel_id: `CH-${i}`,
    registry_id: 500_000 + i,
    certified_from: '2020-01-01',
    certified_until: '9999-12-31',
    certification_url: `https://badge.example/${i}`,
  }));
  // without a local cache, every response uses Redis, however late it replies
  service = await startService({ hotels, env: { L1_MAX_BYTES: '0', REDIS_TIMEOUT_MS: '10000' } });
  other = await startBeside(service);
});

const PATHS = [
  ...['/hotels?limit=5', '/hotels?registry_id=500003', '/hotels/h1', '/hotels/channel/CH-2'],
  ...['/hotels/registry/500003', '/hotels/nowhere', '/hotels/channel/nowhere', '/hotels/registry/1'],
];
/** Every hotel, so that every name in Redis is requested. */
const BATCHES: [string, object][] = [
  ['/hotels/channel/batch', { channel_ids: ['nowhere', ...Array.from({ length: 20 }, (_, i) => `CH-${i}`)] }],
  ['/hotels/registry/batch', { registry_ids: [1, ...Array.from({ length: 20 }, (_, i) => 500_019 - i)] }],
];
/** Twenty hotels and an absent one by id, by channel id and by registry id. */
const NAMES = 63;

/** Requests every operation with both keys and checks the status; returns statuses and texts. */
async function sendAll(): Promise<string[]> {
  const answers: string[] = [];
  for (const key of ['full', 'narrow']) {
    for (const path of PATHS) {
      const { status, text } = await service.get(path, { key });
      answers.push(`${path} ${status} ${text}`);
    }
    for (const [path, body] of BATCHES) {
      const { status, text } = await service.post(path, body, { key });
      answers.push(`${path} ${status} ${text}`);
    }
  }
  expect(answers.map((answer) => Number(answer.split(' ')[1]))).toEqual([
    ...[200, 200, 200, 200, 200, 404, 404, 404, 200, 200],
    ...[200, 403, 200, 200, 403, 404, 404, 403, 200, 403],
  ]);
  return answers;
}

/** Names of hotels in Redis: `<prefix>:<kind>:<id>`. */
const HOTEL = /^[^:]+:[hcr]:/;

async function namesOfHotels(): Promise<string[]> {
  return (await service.redis!.keys('*')).filter((name) => HOTEL.test(name)).sort();
}

/** Fills Redis anew by requests; returns their responses and the names in Redis. */
async function fillRedis(): Promise<{ answers: string[]; names: string[] }> {
  const old = await namesOfHotels();
  if (old.length > 0) await service.redis!.del(old);
  const answers = await sendAll();
  await expect.poll(namesOfHotels).toHaveLength(NAMES);
  return { answers, names: await namesOfHotels() };
}

/** Creates a key, and waits until Redis has it from the other instance. */
async function keyInRedis(isRevoked = false): Promise<{ key: string; name: string }> {
  const key = await insertKey(service.sql, ['registry']);
  if (isRevoked) await revoke(key);
  expect(await statusFor(key, other)).toBe(isRevoked ? 401 : 200);
  const found = () => service.redis!.keys(`*${hashOf(key)}`);
  await expect.poll(found).toHaveLength(1);
  return { key, name: (await found())[0]! };
}

const revoke = (key: string) =>
  service.sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;

async function statusFor(key: string, by = service): Promise<number> {
  return (await by.get('/hotels/registry/500001', { key })).status;
}

type Corruption = (name: string, original: Buffer) => Promise<unknown>;
const set = (change: (original: Buffer) => string | Buffer): Corruption => {
  return (name, original) => service.redis!.set(name, change(original));
};
const changed = (original: Buffer, change: (bytes: Buffer) => void) => {
  const bytes = Buffer.from(original);
  change(bytes);
  return bytes;
};

const corruptions: [string, Corruption][] = [
  ['a text', set(() => 'corrupt')],
  ['nothing', set(() => '')],
  ['bytes without meaning', set((original) => Buffer.alloc(original.length + 100, 0xff))],
  ['half of itself', set((original) => original.subarray(0, original.length / 2))],
  ['itself and more', set((original) => Buffer.concat([original, Buffer.from('x')]))],
  [
    'itself with a flipped bit at its end',
    set((original) => changed(original, (bytes) => (bytes[bytes.length - 1]! ^= 1))),
  ],
  [
    'itself with a flipped bit in its head',
    set((original) => changed(original, (bytes) => (bytes[Math.min(9, bytes.length - 1)]! ^= 0x40))),
  ],
  [
    'itself with a label beyond all others',
    set((original) =>
      changed(
        original,
        (bytes) => void (bytes.length >= 16 ? bytes.writeDoubleLE(1e300, 8) : bytes.fill(0x7e)),
      ),
    ),
  ],
  ['a list', (name) => service.redis!.multi().del(name).rpush(name, 'corrupt').exec()],
  ['a stream', (name) => service.redis!.multi().del(name).xadd(name, '*', 'corrupt', '1').exec()],
];

/** Waits until no name has its earlier value. */
async function untilReplaced(before: Map<string, string>): Promise<void> {
  const unchanged = async () => {
    const now = await dumpsOf([...before.keys()]);
    return [...before.keys()].filter((name) => now.get(name) === before.get(name));
  };
  await expect.poll(unchanged).toEqual([]);
}

async function dumpsOf(names: string[]): Promise<Map<string, string>> {
  const dumps = new Map<string, string>();
  for (const name of names)
    dumps.set(name, (await service.redis!.dumpBuffer(name))?.toString('latin1') ?? '');
  return dumps;
}

describe('Redis that holds', () => {
  it('an invalid value in place of every hotel changes no response, and is replaced', async () => {
    const { answers, names } = await fillRedis();
    // each kind in place of some hotels by each of their ids
    for (const [i, name] of names.entries())
      await corruptions[i % corruptions.length]![1](name, (await service.redis!.getBuffer(name))!);
    const corrupted = await dumpsOf(names);
    expect(await sendAll()).toEqual(answers);
    expect(await sendAll()).toEqual(answers);
    await untilReplaced(corrupted);
    expect(await sendAll()).toEqual(answers);
  });

  // src/cache/redis-batch/read.test.ts judges each of them alone
  it('a forged value with a right checksum in place of every hotel changes no response, and is replaced', async () => {
    const { answers, names } = await fillRedis();
    const entries = names.filter((name) => /:h:h\d+$/.test(name));
    expect(entries.length).toBeGreaterThanOrEqual(FORGERIES.length);
    const headersOf = (name: string) => service.get(`/hotels/${name.split(':').at(-1)}`, { key: 'full' });
    const tags = async () => (await Promise.all(entries.map(headersOf))).map(({ headers }) => headers.etag);
    const before = await tags();
    for (const [i, name] of entries.entries()) {
      const [, forge] = FORGERIES[i % FORGERIES.length]!;
      await service.redis!.set(name, forge((await service.redis!.getBuffer(name))!));
    }
    const corrupted = await dumpsOf(entries);
    const responses = await Promise.all(entries.map(headersOf));
    expect(responses.map(({ headers }) => [headers.etag, headers['x-evil']])).toEqual(
      before.map((tag) => [tag, undefined]),
    );
    // requests that join one read of Redis
    expect(await Promise.all([sendAll(), sendAll()])).toEqual([answers, answers]);
    await untilReplaced(corrupted);
  });

  it('an invalid value in place of a key neither validates nor invalidates a key', async () => {
    const originals = new Map<string, string>();
    const keys: { key: string; status: number }[] = [];
    for (const [, corrupt] of corruptions)
      for (const isRevoked of [false, true]) {
        const { key, name } = await keyInRedis(isRevoked);
        keys.push({ key, status: isRevoked ? 401 : 200 });
        await corrupt(name, (await service.redis!.getBuffer(name))!);
        for (const [dumped, dump] of await dumpsOf([name])) originals.set(dumped, dump);
      }
    for (let round = 0; round < 2; round++)
      for (const { key, status } of keys) expect(await statusFor(key)).toBe(status);
    await untilReplaced(originals);
  });

  const principal = {
    keyId: 'forged',
    view: 'full',
    expiresAtMs: Infinity,
    limit: null,
    collection: null,
  } as const;
  it('a record that was forged with another secret does not validate a key', async () => {
    const prefix = (await keyInRedis()).name.slice(0, -64);
    const key = makeKey();
    const name = prefix + hashOf(key);
    await service.redis!.set(name, encodeKey(name, { label: FUTURE, principal }, new MacSecret()));
    expect(await statusFor(key)).toBe(401);
  });
});

it('no request caused an error in the log', () => {
  expect(errorsIn(service.logs())).toEqual([]);
});
