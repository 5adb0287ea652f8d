import { crc32 } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf, makeKey } from '../../src/auth/key.ts';
import { encodeKey } from '../../src/auth/key-record.ts';
import { MacSecret } from '../../src/lib/mac.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';

await needs('redis');

/** For what comes without a promise of when. */
const PATIENCE_MS = 10_000;

let service: Service;

beforeAll(async () => {
  const hotels = Array.from({ length: 20 }, (_, i) => ({
    id: `h${i}`,
    channel_id: `CH-${i}`,
    registry_id: 500_000 + i,
    certified_from: '2020-01-01',
    certified_until: '9999-12-31',
    certification_url: `https://badge.example/${i}`,
  }));
  // without a local cache every answer comes by way of Redis
  service = await startService({ hotels, env: { L1_MAX_BYTES: '0' } });
});

const PATHS = [
  '/hotels?limit=5',
  '/hotels?registry_id=500003',
  '/hotels/h1',
  '/hotels/channel/CH-2',
  '/hotels/registry/500003',
  '/hotels/nowhere',
  '/hotels/channel/nowhere',
  '/hotels/registry/1',
];
/** Every hotel, so that every name in Redis is asked for. */
const BATCHES: [string, object][] = [
  ['/hotels/channel/batch', { channel_ids: ['nowhere', ...Array.from({ length: 20 }, (_, i) => `CH-${i}`)] }],
  ['/hotels/registry/batch', { registry_ids: [1, ...Array.from({ length: 20 }, (_, i) => 500_019 - i)] }],
];
/** Twenty hotels and an absent one by id, by channel id and by registry id. */
const NAMES = 63;

/** Every operation with both keys: status and text, the status as it must be. */
async function askAll(): Promise<string[]> {
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

/** Where hotels and keys stand in Redis: `<generation>:<kind>:<id>`. */
const HOTEL = /^[^:]+:[hcr]:/;
const HOTEL_OR_KEY = /^[^:]+:[hcrk]:/;

async function namesOfHotels(): Promise<string[]> {
  return (await service.redis!.keys('*')).filter((name) => HOTEL.test(name)).sort();
}

/** Has Redis filled anew by questions; returns their answers and the names under which it holds them. */
async function fill(): Promise<{ answers: string[]; names: string[] }> {
  const old = await namesOfHotels();
  if (old.length > 0) await service.redis!.del(old);
  const answers = await askAll();
  await within(PATIENCE_MS, namesOfHotels, (found) => expect(found).toHaveLength(NAMES));
  return { answers, names: await namesOfHotels() };
}

/** Inserts a key and waits until Redis knows it, though no worker does. */
async function insertKey(row: { revoked_at?: Date }): Promise<{ key: string; name: string }> {
  const key = makeKey();
  const sha256 = hashOf(key);
  await service.sql`insert into api_keys ${service.sql({
    id: sha256.slice(0, 20),
    name: 'a test',
    key_sha256: Buffer.from(sha256, 'hex'),
    scopes: ['registry'],
    revoked_at: row.revoked_at ?? null,
  })}`;
  const found = () => service.redis!.keys(`*${sha256}`);
  await within(PATIENCE_MS, found, (found) => expect(found).toHaveLength(1));
  return { key, name: (await found())[0]! };
}

const bound = (of: Service) => ({
  get: async (key: string) => (await of.get('/hotels/registry/500001', { key })).status,
});

type Poison = (name: string, sound: Buffer) => Promise<unknown>;
const set = (change: (sound: Buffer) => string | Buffer): Poison => {
  return (name, sound) => service.redis!.set(name, change(sound));
};
const changed = (sound: Buffer, change: (bytes: Buffer) => void) => {
  const bytes = Buffer.from(sound);
  change(bytes);
  return bytes;
};

const poisons: [string, Poison][] = [
  ['a text', set(() => 'poison')],
  ['JSON', set(() => '{"id":"h1","name":"Poison"}')],
  ['bytes without meaning', set((sound) => Buffer.alloc(sound.length + 100, 0xff))],
  ['zeros', set((sound) => Buffer.alloc(sound.length + 1))],
  ['half of itself', set((sound) => sound.subarray(0, sound.length / 2))],
  ['all of itself but the end', set((sound) => sound.subarray(0, -1))],
  ['itself and more', set((sound) => Buffer.concat([sound, Buffer.from('x')]))],
  [
    'itself with a flipped bit at its end',
    set((sound) => changed(sound, (bytes) => (bytes[bytes.length - 1]! ^= 1))),
  ],
  [
    'itself with a flipped bit in its head',
    set((sound) => changed(sound, (bytes) => (bytes[Math.min(9, bytes.length - 1)]! ^= 0x40))),
  ],
  [
    'itself with a version beyond all others',
    set((sound) =>
      changed(sound, (bytes) => void (bytes.length >= 16 ? bytes.writeDoubleLE(1e300, 8) : bytes.fill(0x7e))),
    ),
  ],
  ['a list', (name) => service.redis!.multi().del(name).rpush(name, 'poison').exec()],
  ['a hash', (name) => service.redis!.multi().del(name).hset(name, 'poison', '1').exec()],
  ['a sorted set', (name) => service.redis!.multi().del(name).zadd(name, 1, 'poison').exec()],
  ['a stream', (name) => service.redis!.multi().del(name).xadd(name, '*', 'poison', '1').exec()],
];

/** False of the names of absences. */
function isOfHotel(name: string): boolean {
  return !/:(nowhere|1)$/.test(name);
}

/** The names under which the same stands as did before. */
async function unchanged(before: Map<string, string>): Promise<string[]> {
  const now = await dumpsOf([...before.keys()]);
  return [...before.keys()].filter((name) => now.get(name) === before.get(name));
}

async function dumpsOf(names: string[]): Promise<Map<string, string>> {
  const dumps = new Map<string, string>();
  for (const name of names)
    dumps.set(name, (await service.redis!.dumpBuffer(name))?.toString('latin1') ?? '');
  return dumps;
}

describe('Redis that holds', () => {
  it.each(poisons)('%s in place of every hotel changes no answer, and is healed', async (_, poison) => {
    const { answers, names } = await fill();
    for (const name of names) await poison(name, (await service.redis!.getBuffer(name))!);
    const poisoned = await dumpsOf(names.filter(isOfHotel));
    expect(await askAll()).toEqual(answers);
    expect(await askAll()).toEqual(answers);
    await within(
      PATIENCE_MS,
      () => unchanged(poisoned),
      (found) => expect(found).toEqual([]),
    );
    expect(await askAll()).toEqual(answers);
  });

  it('an empty value in place of every hotel changes no answer', async () => {
    const { answers, names } = await fill();
    for (const name of names) await service.redis!.set(name, '');
    expect(await askAll()).toEqual(answers);
    expect(await askAll()).toEqual(answers);
  });

  it('the value of another hotel in place of each changes no answer', async () => {
    const { answers, names } = await fill();
    for (const letter of ['h', 'c', 'r']) {
      const alike = names.filter((name) => isOfHotel(name) && name.split(':')[1] === letter);
      const values = await Promise.all(alike.map((name) => service.redis!.getBuffer(name)));
      for (const [i, name] of alike.entries()) {
        await service.redis!.set(name, values[(i + 1) % values.length]!);
      }
    }
    expect(await askAll()).toEqual(answers);
    expect(await askAll()).toEqual(answers);
  });

  it('poison in place of an absence is healed', async () => {
    const { answers, names } = await fill();
    const absences = names.filter((name) => !isOfHotel(name));
    expect(absences).toHaveLength(3);
    for (const name of absences) await service.redis!.set(name, 'poison');
    const poisoned = await dumpsOf(absences);
    expect(await askAll()).toEqual(answers);
    await within(
      PATIENCE_MS,
      () => unchanged(poisoned),
      (found) => expect(found).toEqual([]),
    );
  });

  it.each(poisons)('%s in place of a key makes no key of it, nor takes one away', async (_, poison) => {
    const good = await insertKey({});
    const revoked = await insertKey({ revoked_at: new Date() });
    for (const { name } of [good, revoked]) await poison(name, (await service.redis!.getBuffer(name))!);
    const poisoned = await dumpsOf([good.name, revoked.name]);
    for (let round = 0; round < 2; round++) {
      expect((await service.get('/hotels/registry/500001', { key: good.key })).status).toBe(200);
      expect((await service.get('/hotels/registry/500001', { key: revoked.key })).status).toBe(401);
    }
    await within(
      PATIENCE_MS,
      () => unchanged(poisoned),
      (found) => expect(found).toEqual([]),
    );
  });

  const record = {
    id: 'forged',
    scopes: ['registry'],
    expiresAtMs: null,
    revoked: false,
    rateLimit: null,
    collection: null,
  };
  const forgeries: [string, (name: string, sha256: string) => Buffer][] = [
    ['with another secret', (name) => encodeKey(name, { version: 1, record }, new MacSecret())],
    [
      'with a checksum',
      (_, sha256) => {
        const json = Buffer.from(JSON.stringify([sha256, record]));
        const bytes = Buffer.concat([Buffer.alloc(4), Buffer.from('HEK2'), Buffer.alloc(8), json]);
        bytes.writeDoubleLE(1, 8);
        bytes.writeUInt32LE(crc32(bytes.subarray(4)), 0);
        return bytes;
      },
    ],
  ];
  it.each(forgeries)('a record that others have made %s makes no key of it', async (_, forge) => {
    const prefix = (await insertKey({})).name.slice(0, -64);
    const key = makeKey();
    const sha256 = hashOf(key);
    await service.redis!.set(prefix + sha256, forge(prefix + sha256, sha256));
    expect((await service.get('/hotels/registry/500001', { key })).status).toBe(401);
  });

  it('what stood there for another key, or for this one before it was revoked, makes no key valid', async () => {
    const [good, revoked] = [await insertKey({}), await insertKey({})];
    const before = (await service.redis!.getBuffer(revoked.name))!;
    await service.sql`update api_keys set revoked_at = now()
      where key_sha256 = ${Buffer.from(hashOf(revoked.key), 'hex')}`;
    await within(
      PATIENCE_MS,
      async () => (await service.redis!.getBuffer(revoked.name))!.equals(before),
      (isAsBefore) => expect(isAsBefore).toBe(false),
    );
    const beside = { database: service.database, redisDatabase: service.redisDatabase! };
    // it has heard of no change
    const newcomer = await startService(beside);
    for (const value of [before, (await service.redis!.getBuffer(good.name))!]) {
      for (const { get } of [bound(service), bound(newcomer)]) {
        await service.redis!.set(revoked.name, value);
        expect(await get(revoked.key)).toBe(401);
        expect(await get(good.key)).toBe(200);
      }
    }
    await newcomer.stop();
  });

  it.each(poisons)('%s in place of everything else keeps no change from being seen', async (_, poison) => {
    const others = (await service.redis!.keys('*')).filter((name) => !HOTEL_OR_KEY.test(name));
    for (const name of others) {
      const sound = await service.redis!.getBuffer(name).catch(() => null);
      await poison(name, sound ?? Buffer.from('a list, a hash, a sorted set or a stream'));
    }
    const name = `Changed ${Math.random()}`;
    await service.sql`update hotels set name = ${name} where id = 'h1'`;
    await within(
      1_000,
      async () => (await service.get('/hotels/h1')).json().name,
      (found) => expect(found).toBe(name),
    );
  });

  it('nothing any more changes no answer', async () => {
    // not filled: what the test before poisoned may have begun another generation beside the names of this one
    const answers = await askAll();
    await service.redis!.flushdb();
    expect(await askAll()).toEqual(answers);
    expect(await askAll()).toEqual(answers);
  });
});

it('nothing of it was an error', () => {
  expect(service.logs().filter((line) => ['error', 'fatal'].includes(JSON.parse(line).level))).toEqual([]);
});
