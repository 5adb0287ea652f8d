import { beforeAll, describe, expect, it } from 'vitest';
import type { HttpResponse } from '../support/client.ts';
import { untilApplied } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { monitorRedis, type RedisCommand } from '../support/redis-use.ts';
import { addToCollection, insertCollection, insertKey, removeFromCollection } from '../support/rows.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('redis');

/** Where hotels outside of the collection are cached for other keys, and two kinds of ids of no hotel. */
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

/** Returns consecutive numbers. */
function from(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, n) => first + n);
}

/**
 * Resolves when the writes to Redis that a service has begun are done, and `commands` has them. Returns the connection of its
 * worker.
 */
async function settled(by: Service): Promise<string> {
  // they precede the lookup on the same connection
  const id = `sync-${++syncs}`;
  await by.get(`/hotels/${id}`);
  const sent = () => commands.find(({ line }) => line.includes(id));
  await expect.poll(sent).toBeDefined();
  return sent()!.from;
}

/** Creates the condition of one kind; returns the numbers of as many hotels, or ids of none. */
async function prepare(kind: (typeof KINDS)[number], count = 1): Promise<number[]> {
  const alike = from(hotels, count);
  hotels += count;
  if (kind.startsWith('hidden'))
    await service.sql`insert into hotels (id, name, channel_id, registry_id)
      select 'h' || i, 'name', 'c' || i, i from unnest(${alike}::int[]) as i`;
  for (const instance of [service, other]) await untilApplied(instance);
  const reader = kind === 'hidden: cached in Redis' ? other : service;
  if (!kind.includes('nowhere')) {
    await reader.post('/hotels/channel/batch', { channel_ids: alike.map((i) => `c${i}`) });
    await reader.post('/hotels/registry/batch', { registry_ids: alike });
    await reader.post('/hotels/batch', { ids: alike.map((i) => `h${i}`) });
  }
  await settled(service);
  await settled(other);
  if (kind === 'hidden: cached nowhere') {
    const names = await service.redis!.keys('*');
    const ofKind = names.filter((name) => alike.includes(Number(/:[hcr]:[hc]?(\d+)$/.exec(name)?.[1])));
    if (ofKind.length > 0) await service.redis!.del(ofKind);
  }
  return alike;
}

/** Returns the work of a request: its response, its commands to Redis that name hotels outside, its lookups in all tiers. */
async function workOf(request: () => Promise<HttpResponse>) {
  const worker = await settled(service);
  const counts = async () =>
    (await service.samples('hotel_api_cache_lookups_total')).map(({ value }) => value);
  const before = await counts();
  commands.length = 0;
  const response = await request();
  // Redis has passed on what came before this
  const end = `end ${++syncs}`;
  await service.redis!.echo(end);
  await expect.poll(() => commands.some(({ line }) => line.includes(end))).toBe(true);
  const { date: _, 'x-request-id': __, ...headers } = response.headers;
  return {
    status: response.status,
    text: response.text,
    headers,
    redis: commands.filter(({ line, from }) => from === worker && /:(h:h|c:c|r:)1\d{4}\b/.test(line)),
    lookups: (await counts()).map((count, at) => count - before[at]!),
  };
}

const status = async (path: string) => (await service.get(path, { key })).status;
const paths = (i: number) => [`/hotels/h${i}`, `/hotels/channel/c${i}`, `/hotels/registry/${i}`];
const BATCHES = {
  ids: '/hotels/batch',
  channel_ids: '/hotels/channel/batch',
  registry_ids: '/hotels/registry/batch',
};
const batch = (field: keyof typeof BATCHES, ids: unknown[]) =>
  service.post(BATCHES[field], { [field]: ids }, { key });

describe('for a key of a collection, hidden hotels cost the same work as absent ones:', () => {
  const members = from(1_000, KEYS_OF_LARGE_BATCH);
  /** Requests for hotels of one kind, each for others. */
  const REQUESTS: [what: string, hotels: number, (numbers: number[]) => Promise<HttpResponse>][] = [
    ['by id', 1, ([i]) => service.get(`/hotels/h${i}`, { key })],
    ['by channel id', 1, ([i]) => service.get(`/hotels/channel/c${i}`, { key })],
    ['by registry id', 1, ([i]) => service.get(`/hotels/registry/${i}`, { key })],
    ['by the filter', 1, ([i]) => service.get(`/hotels?registry_id=${i}`, { key })],
    ['in a batch of 1000 copies', 1, ([i]) => batch('channel_ids', new Array(1_000).fill(`c${i}`))],
    [
      'in a batch',
      100,
      (numbers) =>
        batch(
          'channel_ids',
          numbers.map((i) => `c${i}`),
        ),
    ],
    [
      'in a batch by id',
      100,
      (numbers) =>
        batch(
          'ids',
          numbers.map((i) => `h${i}`),
        ),
    ],
    ['in a batch behind members', 100, (numbers) => batch('registry_ids', [...members, ...numbers])],
  ];
  const total = REQUESTS.reduce((sum, [, count]) => sum + count, 0);

  it('by any request, the first and the second time', async () => {
    // the members of the collection are known and cached
    for (let round = 0; round < 2; round++) await batch('registry_ids', members);
    const worksOf = async (kind: (typeof KINDS)[number]) => {
      const numbers = await prepare(kind, total);
      const works: unknown[] = [];
      for (const [what, count, request] of REQUESTS) {
        const some = numbers.splice(0, count);
        for (let round = 0; round < 2; round++) works.push([what, await workOf(() => request(some))]);
      }
      return works;
    };
    const queries = () => service.metric('hotel_api_collection_queries_total');
    const works: [string, unknown[]][] = [];
    for (const kind of KINDS) {
      let before: number;
      let work: unknown[];
      // a poll that is late has the members looked up in PostgreSQL: it is measured again
      do {
        before = await queries();
        work = await worksOf(kind);
      } while ((await queries()) > before);
      works.push([kind, work]);
    }
    const [, absent] = works.at(-1)!;
    for (const [kind, work] of works) {
      expect([kind, work]).toEqual([kind, absent]);
      expect(work).toMatchObject(REQUESTS.flatMap(([what]) => Array(2).fill([what, { redis: [] }])));
    }
  });

  it('also by the ids of a former member, and by one that a member has lost to them', async () => {
    await prepare('absent: cached');
    const [left, heir] = await prepare('hidden: cached nowhere', 2);
    await addToCollection(service.sql, 'some', [`h${left}`]);
    for (const path of paths(left!)) await expect.poll(() => status(path)).toBe(200);
    await removeFromCollection(service.sql, 'some', [`h${left}`]);
    await service.sql`update hotels set channel_id = null where id = 'h1001'`;
    await service.sql`update hotels set channel_id = 'c1001' where id = ${`h${heir}`}`;
    await untilApplied(service);
    const lost = '/hotels/channel/c1001';
    // the first request finds that the id is lost
    for (const path of [...paths(left!), lost]) await expect.poll(() => status(path)).toBe(404);
    const none = (await workOf(() => service.get('/hotels/h-none', { key }))).lookups;
    for (const path of [...paths(left!), lost])
      await expect.poll(async () => (await workOf(() => service.get(path, { key }))).lookups).toEqual(none);
  });
});
