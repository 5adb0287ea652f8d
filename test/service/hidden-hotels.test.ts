import { beforeAll, expect, it } from 'vitest';
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
/** Registry ids are the numbers of the hotels. */
const MEMBERS = from(1_000, 200);
const BATCHES = {
  ids: '/hotels/batch',
  channel_ids: '/hotels/channel/batch',
  registry_ids: '/hotels/registry/batch',
};

let service: Service;
/** another instance, whose clients have no collection */
let other: Service;
let key: string;
let commands: RedisCommand[];
let hotels = 10_000;
let syncs = 0;

beforeAll(async () => {
  const members = MEMBERS.map((i) => ({ id: `h${i}`, channel_id: `c${i}`, registry_id: i }));
  // a lookup in Redis that times out would be one in PostgreSQL
  const env = { REDIS_TIMEOUT_MS: '10000' };
  service = await startService({ hotels: members, env });
  other = await startBeside(service, { env });
  const ids = members.map(({ id }) => id);
  await insertCollection(service.sql, 'some', ids);
  key = await insertKey(service.sql, ['registry'], 'some');
  commands = await monitorRedis(service.redisDatabase!.url);
});

/** Returns consecutive numbers. */
function from(first: number, count: number): number[] {
  return Array.from({ length: count }, (_, n) => first + n);
}

const pathsOf = (i: number) => [`/hotels/h${i}`, `/hotels/channel/c${i}`, `/hotels/registry/${i}`];

function batch(field: keyof typeof BATCHES, numbers: number[], by = service, keyOf?: string) {
  const ids = field === 'registry_ids' ? numbers : numbers.map((i) => `${field === 'ids' ? 'h' : 'c'}${i}`);
  return by.post(BATCHES[field], { [field]: ids }, { key: keyOf });
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
async function prepare(kind: (typeof KINDS)[number], count: number): Promise<number[]> {
  const alike = from(hotels, count);
  hotels += count;
  if (kind.startsWith('hidden'))
    await service.sql`insert into hotels (id, name, channel_id, registry_id)
      select 'h' || i, 'name', 'c' || i, i from unnest(${alike}::int[]) as i`;
  for (const instance of [service, other]) await untilApplied(instance);
  if (!kind.includes('nowhere'))
    for (const field of ['channel_ids', 'registry_ids', 'ids'] as const)
      await batch(field, alike, kind === 'hidden: cached in Redis' ? other : service);
  await settled(service);
  await settled(other);
  if (kind === 'hidden: cached nowhere') {
    const names = await service.redis!.keys('*');
    const ofKind = names.filter((name) => alike.includes(Number(/:[hcr]:[hc]?(\d+)$/.exec(name)?.[1])));
    if (ofKind.length > 0) await service.redis!.del(ofKind);
  }
  return alike;
}

/** Returns the work of requests: responses, commands to Redis that name hotels outside, lookups in all tiers. */
async function workOf(requests: (() => Promise<HttpResponse>)[]) {
  const worker = await settled(service);
  const counts = async () =>
    (await service.samples('hotel_api_cache_lookups_total')).map(({ value }) => value);
  const before = await counts();
  commands.length = 0;
  const responses: unknown[] = [];
  for (const request of requests) {
    const { status, text, headers } = await request();
    const { date: _, 'x-request-id': __, ...others } = headers;
    responses.push({ status, text, ...others });
  }
  // Redis has passed on what came before this
  const end = `end ${++syncs}`;
  await service.redis!.echo(end);
  await expect.poll(() => commands.some(({ line }) => line.includes(end))).toBe(true);
  const redis = commands.filter(({ line, from }) => from === worker && /:(h:h|c:c|r:)1\d{4}\b/.test(line));
  return { responses, redis, lookups: (await counts()).map((count, at) => count - before[at]!) };
}

/** Each request for other hotels of one kind, the first and the second time. */
function requestsFor(numbers: number[]): (() => Promise<HttpResponse>)[] {
  const [a, b, c, d, e] = numbers as [number, number, number, number, number];
  const get = (path: string) => () => service.get(path, { key });
  const send = (field: keyof typeof BATCHES, some: number[]) => () => batch(field, some, service, key);
  return [
    ...[get(pathsOf(a)[0]!), get(pathsOf(b)[1]!), get(pathsOf(c)[2]!), get(`/hotels?registry_id=${d}`)],
    send('channel_ids', new Array(1_000).fill(e)),
    send('channel_ids', numbers.slice(5, 105)),
    send('ids', numbers.slice(105, 205)),
    send('registry_ids', [...MEMBERS.slice(0, 150), ...numbers.slice(205)]),
  ].flatMap((request) => [request, request]);
}

it('for a key of a collection, hidden hotels cost the same work as absent ones', async () => {
  // the members of the collection are known and cached
  for (let round = 0; round < 2; round++) await batch('registry_ids', MEMBERS, service, key);
  const queries = () => service.metric('hotel_api_collection_queries_total');
  const works: unknown[] = [];
  for (const kind of KINDS) {
    let before: number;
    let work: Awaited<ReturnType<typeof workOf>>;
    // a poll that is late has the members looked up in PostgreSQL: it is measured again
    do {
      before = await queries();
      work = await workOf(requestsFor(await prepare(kind, 305)));
    } while ((await queries()) > before);
    expect([kind, work.redis]).toEqual([kind, []]);
    works.push(work);
  }
  expect(works).toEqual(KINDS.map(() => works.at(-1)));
});

it('so do the ids of a former member, and one that a member has lost to hotels outside', async () => {
  const [left, heir] = await prepare('hidden: cached nowhere', 2);
  const status = async (path: string) => (await service.get(path, { key })).status;
  await addToCollection(service.sql, 'some', [`h${left}`]);
  for (const path of pathsOf(left!)) await expect.poll(() => status(path)).toBe(200);
  await removeFromCollection(service.sql, 'some', [`h${left}`]);
  await service.sql`update hotels set channel_id = null where id = 'h1001'`;
  await service.sql`update hotels set channel_id = 'c1001' where id = ${`h${heir}`}`;
  await untilApplied(service);
  const lost = [...pathsOf(left!), '/hotels/channel/c1001'];
  // the first request finds that the id is lost
  for (const path of lost) await expect.poll(() => status(path)).toBe(404);
  const lookups = async (paths: string[]) =>
    (await workOf(paths.map((path) => () => service.get(path, { key })))).lookups;
  const none = await lookups(lost.map((_, i) => `/hotels/h-none-${i}`));
  await expect.poll(() => lookups(lost)).toEqual(none);
});
