import { beforeAll, describe, expect, it } from 'vitest';
import type { HttpResponse } from '../support/client.ts';
import { addToCollection, insertCollection } from '../support/collection.ts';
import { insertKey } from '../support/key.ts';
import { untilApplied } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { monitorRedis, type RedisCommand } from '../support/redis-monitor.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('redis');

/** Where a hotel outside of the collection is cached for other keys, and two kinds of keys of no hotel. */
const KINDS = [
  'hidden: cached everywhere',
  'hidden: cached in Redis',
  'hidden: cached nowhere',
  'absent: cached',
  'absent: cached nowhere',
] as const;
const KEYS_OF_LARGE_BATCH = 150;
/** Registry ids are the numbers of the hotels. */
const MEMBERS = 200;

let service: Service;
/** another instance, whose clients have no collection */
let other: Service;
let key: string;
let commands: RedisCommand[];
let hotels = 10_000;
let syncs = 0;

beforeAll(async () => {
  const members = Array.from({ length: MEMBERS }, (_, i) => hotelOf(1_000 + i));
  // a lookup in Redis that times out would be one in PostgreSQL
  const env = { REDIS_TIMEOUT_MS: '10000' };
  service = await startService({ hotels: members, env });
  other = await startBeside(service, { env });
  await insertCollection(
    service.sql,
    'some',
    members.map(({ id }) => id),
  );
  key = await insertKey(service.sql, ['registry'], 'some');
  commands = await monitorRedis(service.redisDatabase!.url);
});

function hotelOf(i: number) {
  return { id: `h${i}`, channel_id: `c${i}`, registry_id: i };
}

/**
 * Resolves when the writes to Redis that a service has begun are done, and `commands` has them. Returns the connection of its
 * worker.
 */
async function settled(from: Service): Promise<string> {
  // they precede the lookup on the same connection
  const id = `sync-${++syncs}`;
  await from.get(`/hotels/${id}`);
  const sent = () => commands.find(({ line }) => line.includes(id));
  await expect.poll(sent).toBeDefined();
  return sent()!.from;
}

/** Creates the condition of one kind; returns the number of its hotel. */
async function prepare(kind: (typeof KINDS)[number]): Promise<number> {
  const i = ++hotels;
  if (kind.startsWith('hidden')) await service.insert(hotelOf(i));
  for (const instance of [service, other]) await untilApplied(instance);
  const reader = kind === 'hidden: cached in Redis' ? other : service;
  if (!kind.includes('nowhere'))
    for (const path of [`/hotels/channel/c${i}`, `/hotels/registry/${i}`, `/hotels/h${i}`])
      await reader.get(path);
  await settled(service);
  await settled(other);
  if (kind === 'hidden: cached nowhere') {
    const redis = service.redis!;
    const names = (await redis.keys('*')).filter(
      (name) => name.endsWith(`:h${i}`) || name.endsWith(`:c${i}`),
    );
    await redis.del([...names, ...(await redis.keys(`*:r:${i}`))]);
  }
  return i;
}

/** Returns the work of a request: its response, and the lookups in Redis and PostgreSQL, without the names of the hotel. */
async function workOf(i: number, request: () => Promise<HttpResponse>) {
  const worker = await settled(service);
  const counts = async () => {
    const samples = await service.samples('hotel_api_cache_lookups_total');
    return samples.filter(({ labels }) => labels.tier !== 'local').map(({ value }) => value);
  };
  const before = await counts();
  commands.length = 0;
  const response = await request();
  // Redis has passed on what came before this
  await service.redis!.echo(`end of ${i}`);
  await expect.poll(() => commands.some(({ line }) => line.includes(`end of ${i}`))).toBe(true);
  const name = new RegExp(`\\b(h:h|c:c|r:)${i}\\b`);
  const lines = commands.filter(({ line, from }) => from === worker && name.test(line));
  const { date: _, 'x-request-id': __, ...headers } = response.headers;
  return {
    status: response.status,
    text: response.text,
    headers,
    redis: lines.map(({ line }) => line.replace(/\S+:([hcr]:)/g, '$1').replaceAll(String(i), 'N')),
    lookups: (await counts()).map((count, at) => count - before[at]!),
  };
}

const status = async (path: string) => (await service.get(path, { key })).status;

describe('for a key of a collection, a hidden hotel costs the same lookups as an absent one:', () => {
  const batch = (kind: 'channel' | 'registry', ids: unknown[]) =>
    service.post(`/hotels/${kind}/batch`, { [`${kind}_ids`]: ids }, { key });
  const members = Array.from({ length: KEYS_OF_LARGE_BATCH }, (_, i) => 1_000 + i);
  const REQUESTS: [string, (i: number) => Promise<HttpResponse>][] = [
    ['by id', (i) => service.get(`/hotels/h${i}`, { key })],
    ['by channel id', (i) => service.get(`/hotels/channel/c${i}`, { key })],
    ['by registry id', (i) => service.get(`/hotels/registry/${i}`, { key })],
    ['by the filter', (i) => service.get(`/hotels?registry_id=${i}`, { key })],
    ['in a batch of one', (i) => batch('channel', [`c${i}`])],
    ['in a large batch', (i) => batch('registry', [...members, i])],
  ];

  it.each(REQUESTS)('%s', async (_, request) => {
    // the members of the collection are known and cached
    for (let round = 0; round < 2; round++) await batch('registry', members);
    const compare = async () => {
      const works: unknown[][] = [];
      for (const kind of KINDS) {
        const i = await prepare(kind);
        const work = [];
        for (let round = 0; round < 2; round++) work.push(await workOf(i, () => request(i)));
        works.push(work);
      }
      return works;
    };
    // a poll that is late has the members looked up in PostgreSQL: it is compared again
    const queries = () => service.metric('hotel_api_collection_queries_total');
    let works: unknown[][];
    let before: number;
    do {
      before = await queries();
      works = await compare();
    } while ((await queries()) > before);
    for (const [at, work] of works.entries()) expect([KINDS[at], work]).toEqual([KINDS[at], works.at(-1)]);
  });

  it('and is shown as soon as it is a member', async () => {
    const i = await prepare('hidden: cached everywhere');
    const paths = [`/hotels/h${i}`, `/hotels/channel/c${i}`, `/hotels/registry/${i}`];
    for (const path of paths) expect((await service.get(path, { key })).status).toBe(404);
    await addToCollection(service.sql, 'some', [`h${i}`]);
    for (const path of paths) await expect.poll(() => status(path)).toBe(200);
  });

  it('and a member is shown by an id that it has taken over', async () => {
    const i = await prepare('hidden: cached everywhere');
    const path = `/hotels/channel/c${i}`;
    expect(await status(path)).toBe(404);
    await service.sql`update hotels set channel_id = null where id = ${`h${i}`}`;
    await service.sql`update hotels set channel_id = ${`c${i}`} where id = 'h1000'`;
    await expect.poll(() => status(path)).toBe(200);
  });
});
