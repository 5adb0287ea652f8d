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
/** Hotels, or ids of none, of each kind. */
const ALIKE = 100;
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

/** Returns the numbers of the hotels of a kind. */
function from(first: number, count = ALIKE): number[] {
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

/** Creates the condition of one kind; returns the number of its first hotel. */
async function prepare(kind: (typeof KINDS)[number]): Promise<number> {
  const first = hotels;
  hotels += ALIKE;
  if (kind.startsWith('hidden'))
    await service.sql`insert into hotels (id, name, channel_id, registry_id)
      select 'h' || i, 'name', 'c' || i, i from generate_series(${first}::int, ${hotels - 1}::int) as i`;
  for (const instance of [service, other]) await untilApplied(instance);
  const reader = kind === 'hidden: cached in Redis' ? other : service;
  if (!kind.includes('nowhere')) {
    await reader.post('/hotels/channel/batch', { channel_ids: from(first).map((i) => `c${i}`) });
    await reader.post('/hotels/registry/batch', { registry_ids: from(first) });
    await reader.get(`/hotels/h${first}`);
  }
  await settled(service);
  await settled(other);
  if (kind === 'hidden: cached nowhere') {
    const names = await service.redis!.keys('*');
    const ofKind = names.filter((name) => from(first).includes(Number(/:[hcr]:[hc]?(\d+)$/.exec(name)?.[1])));
    if (ofKind.length > 0) await service.redis!.del(ofKind);
  }
  return first;
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
const batch = (kind: 'channel' | 'registry', ids: unknown[]) =>
  service.post(`/hotels/${kind}/batch`, { [`${kind}_ids`]: ids }, { key });

describe('for a key of a collection, hidden hotels cost the same work as absent ones:', () => {
  const members = from(1_000, KEYS_OF_LARGE_BATCH);
  const REQUESTS: [string, (first: number) => Promise<HttpResponse>][] = [
    ['by id', (i) => service.get(`/hotels/h${i}`, { key })],
    ['by channel id', (i) => service.get(`/hotels/channel/c${i}`, { key })],
    ['by registry id', (i) => service.get(`/hotels/registry/${i}`, { key })],
    ['by the filter', (i) => service.get(`/hotels?registry_id=${i}`, { key })],
    ['in a batch of 1000 copies', (i) => batch('channel', new Array(1_000).fill(`c${i}`))],
    [
      'in a batch of others',
      (i) =>
        batch(
          'channel',
          from(i).map((each) => `c${each}`),
        ),
    ],
    ['in a batch of members and others', (i) => batch('registry', [...members, ...from(i)])],
  ];

  it.each(REQUESTS)('%s', async (_, request) => {
    // the members of the collection are known and cached
    for (let round = 0; round < 2; round++) await batch('registry', members);
    const compare = async () => {
      const works: unknown[][] = [];
      for (const kind of KINDS) {
        const first = await prepare(kind);
        const work = [];
        for (let round = 0; round < 2; round++) work.push(await workOf(() => request(first)));
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
    for (const [at, work] of works.entries()) {
      expect([KINDS[at], work]).toEqual([KINDS[at], works.at(-1)]);
      expect(work).toMatchObject([{ redis: [] }, { redis: [] }]);
    }
  });

  it('also by the ids of a former member, and by one that a member has lost to them', async () => {
    await prepare('absent: cached');
    const [left, heir] = await Promise.all([0, 1].map(() => prepare('hidden: cached nowhere')));
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
