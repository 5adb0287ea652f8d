import { isDeepStrictEqual } from 'node:util';
import type { Redis } from 'ioredis';
import postgres, { type Sql } from 'postgres';
import { describe, expect, inject, it } from 'vitest';
import { ApiKeyCache } from '../../src/auth/api-key-cache.ts';
import { KEY_QUERY } from '../../src/auth/principal.ts';
import { changesQuery, walkQuery } from '../../src/changes/log-queries.ts';
import { CollectionRepository } from '../../src/collections/repository.ts';
import { HotelRepository } from '../../src/hotels/repository.ts';
import type { HotelRow } from '../../src/hotels/row.ts';
import { useClock } from '../../src/lib/clock.ts';
import { EventLoop } from '../../src/lib/event-loop.ts';
import { LogConnection } from '../../src/log/log-connection.ts';
import { Origin } from '../../src/postgres/origin.ts';
import { mastersBySlot } from '../../src/redis/cluster/slot-map.ts';
import { SET_EACH } from '../../src/redis/store.ts';
import { type Connection, Network } from '../sim/network.ts';
import { type Answer, PgCluster, type Statement } from '../sim/postgres.ts';
import { type RedisServer, RedisServers } from '../sim/redis.ts';
import { execute } from '../sim/statements.ts';
import { World } from '../sim/world.ts';
import {
  beginWrites,
  hotelOf,
  insert,
  remove,
  setCollection,
  setKey,
  setMember,
  silently,
  truncate,
  truncateMembers,
  update,
} from '../sim/writes.ts';
import { freshDatabase, freshRedis } from '../support/database.ts';
import { lacks } from '../support/needs.ts';
import { OwnCluster } from '../support/own-cluster.ts';
import { ownReplica } from '../support/own-replica.ts';
import { ownPostgres, ownRedis, redisAt } from '../support/own-server.ts';
import { startPgBouncer } from '../support/pgbouncer.ts';

/** Constants of hotel_api_sequence. */
const SIZES = {
  ...{ maxPiece: 20_000, maxRow: 1_000, maxKeys: 100_000, maxScanned: 50_000, maxDeleted: 3_000 },
  ...{ maxAgeMs: 1e12, minAgeMs: 6e5, maxIds: 1e6 },
};
const UNORDERED = /^(hotels|of a collection|changes|membership)/;
const WRITING = /hotel_api_(sequence|begin_history)\(/;
/** Virtual time in which the model answers, and its replica has replayed everything. */
const ANSWER_MS = 300;
const REPLAY_MS = 20;
const SHA256 = 'ab'.repeat(32);
const BULK = Array.from({ length: SIZES.maxPiece + 5_000 }, (_, n) => `b${String(n).padStart(5, '0')}`);

const hotelsOf = (origin: Origin) => new HotelRepository(origin, () => '', new EventLoop());
const collectionsOf = (origin: Origin) => new CollectionRepository(origin);
const rooms =
  (count: number, more: Partial<HotelRow> = {}) =>
  (row: HotelRow) => ({ ...row, ...more, room_count: count });
const inserted = (row: HotelRow) =>
  `insert into hotels select * from jsonb_populate_record(null::hotels, '${JSON.stringify(row)}')`;
const [h1, h2, h3] = [1, 2, 3].map((n) => hotelOf(`h${n}`, n)) as [HotelRow, HotelRow, HotelRow];
const key = {
  ...{ sha256: SHA256, id: 'k1', scopes: ['registry'], revoked: false, expiresAtMs: null, collection: null },
  limit: null,
};
const limited = { ...key, expiresAtMs: 2e12, limit: { requests: 3, windowS: 60 } };
const keySql = (set: string) => `update api_keys set ${set} where id = 'k1'`;

/** Transactions: as SQL, and as the model has them. */
const WRITES: [name: string, sql: string[], statements: Statement[]][] = [
  ['hotels are inserted', [h1, h2, h3].map(inserted), [h1, h2, h3].map(insert)],
  ['one is updated', ["update hotels set room_count = 7 where id = 'h1'"], [update(['h1'], rooms(7))]],
  [
    'keys change hands',
    [
      "update hotels set channel_id = null, room_count = 8 where id = 'h1'",
      "update hotels set channel_id = 'c1', room_count = 8 where id = 'h2'",
      "update hotels set channel_id = 'c2', room_count = 8 where id = 'h1'",
    ],
    [
      update(['h1'], rooms(8, { channel_id: null })),
      update(['h2'], rooms(8, { channel_id: 'c1' })),
      update(['h1'], rooms(8, { channel_id: 'c2' })),
    ],
  ],
  [
    'one has another id',
    ["update hotels set id = 'h9' where id = 'h3'"],
    [update(['h3'], rooms(3, { id: 'h9' }))],
  ],
  ['one is deleted', ["delete from hotels where id = 'h2'"], [remove(['h2'])]],
  [
    'a key is created',
    [`insert into api_keys (id, name, key_sha256, scopes) values ('k1', 'k', '\\x${SHA256}', '{registry}')`],
    [setKey(key, SHA256)],
  ],
  ['it expires', [keySql('expires_at = to_timestamp(2e9)')], [setKey({ ...key, expiresAtMs: 2e12 }, SHA256)]],
  ['it is limited', [keySql('rate_limit_requests = 3, rate_limit_window_s = 60')], [setKey(limited, SHA256)]],
  ['it is revoked', [keySql('revoked_at = now()')], [setKey({ ...key, revoked: true }, SHA256)]],
  ['it is deleted', ["delete from api_keys where id = 'k1'"], [setKey(null, SHA256)]],
  [
    'a collection is created',
    ["insert into collections (id, name) values ('north', 'n')"],
    [setCollection('north', true)],
  ],
  [
    'it has members',
    ["insert into collection_hotels values ('north', 'h1'), ('north', 'h9'), ('north', 'none')"],
    [setMember('north', ['h1', 'h9', 'none'], true)],
  ],
  [
    'one is a member no longer',
    ["delete from collection_hotels where hotel_id = 'h9'"],
    [setMember('north', ['h9'], false)],
  ],
  ['no hotel is a member', ['truncate collection_hotels'], [truncateMembers]],
  [
    'a hotel is a member',
    ["insert into collection_hotels values ('north', 'h1')"],
    [setMember('north', ['h1'], true)],
  ],
  [
    'the collection is deleted',
    ["delete from collections where id = 'north'"],
    [setCollection('north', false)],
  ],
  [
    'everything may have changed',
    ['select hotel_api_invalidate()'],
    [silently((data) => ({ data, queued: [] }))],
  ],
  [
    'many are inserted',
    [
      `insert into hotels (id, name, channel_id, room_count)
        select 'b' || lpad(n::text, 5, '0'), 'b', 'b' || n, 1 from generate_series(0, ${BULK.length - 1}) as n`,
    ],
    [
      (data) => ({
        data: {
          ...data,
          hotels: new Map([...data.hotels, ...BULK.map((id, n) => [id, bulkHotel(id, n)] as const)]),
        },
        queued: Array.from({ length: Math.ceil(BULK.length / 1_000) }, (_, i) => {
          const ids = BULK.slice(1_000 * i, 1_000 * (i + 1));
          return {
            ...{ kind: 'hotels' as const, ids, size: ids.length, moves: true, collection: null },
            channelIds: ids.map((_id, n) => `b${1_000 * i + n}`),
            registryIds: ids.map(() => null),
          };
        }),
      }),
    ],
  ],
  ['there are no hotels', ['truncate hotels'], [truncate]],
];

function bulkHotel(id: string, n: number): HotelRow {
  const none = {
    address: null,
    city: null,
    country_code: null,
    latitude: null,
    longitude: null,
    language: null,
  };
  return {
    ...hotelOf(id, n),
    ...(none as unknown as Partial<HotelRow>),
    ...({ star_rating: null, room_count: 1, channel_id: `b${n}`, registry_id: null } as Partial<HotelRow>),
  };
}

/** Runs statements of the service; `write` runs a transaction. */
interface Database {
  ask(text: string, parameters: readonly unknown[]): Promise<unknown>;
  write(sql: string[], statements: Statement[]): Promise<void>;
}

/** Returns the statements that the service sends for some work. */
async function statementsOf(work: (origin: Origin, log: LogConnection) => Promise<unknown>) {
  const asked: [text: string, parameters: readonly unknown[]][] = [];
  const record = (text: string, parameters: readonly unknown[] = []) => {
    asked.push([text, parameters]);
    return Object.assign(Promise.resolve([]), { simple: () => Promise.resolve([]) });
  };
  const origin = new Origin({
    primary: { rows: record } as never,
    replicas: [],
    ...{ applied: () => undefined, mayCompareReplicas: () => true, onBehind: () => {}, count: () => {} },
  });
  // no process of the simulation sends them
  useClock();
  // nothing is answered, which the service takes for a fault
  await work(origin, new LogConnection({ unsafe: record } as never)).catch(() => {});
  return asked;
}

/** Statements of the service that read, as it sends them with this cursor of the log. */
async function readsAt(position: number, transaction: string) {
  const works: [string, (origin: Origin, log: LogConnection) => Promise<unknown>][] = [
    ['poll', (_, log) => log.poll({ position, transaction })],
    ['poll of a lost cursor', (_, log) => log.poll({ position: position + 1_000_000, transaction })],
    ['rows before', (_, log) => log.rowsBefore(position)],
    ['rows before a position it lacks', (_, log) => log.rowsBefore(position + 1_000_000)],
    ['history', (_, log) => log.historyStart()],
    ['hotels by id', (origin) => hotelsOf(origin).load('id', ['h1', 'h9', 'no'], '', null)],
    ['hotels by channel', (origin) => hotelsOf(origin).load('channel', ['c1', 'c2'], '', null)],
    ['hotels by registry', (origin) => hotelsOf(origin).load('registry', ['1001', '1003', '1'], '', null)],
    ['of a collection', (origin) => hotelsOf(origin).load('id', ['h1', 'h9'], '', 'north')],
    ['hotels of it by channel', (origin) => hotelsOf(origin).load('channel', ['c1', 'c2'], '', 'north')],
    ['hotels of it by registry', (origin) => hotelsOf(origin).load('registry', ['1001', '1'], '', 'north')],
    ['ids', (origin) => hotelsOf(origin).list.ids(['h1', 'h9'], 1, 3)],
    ['ids of a collection', (origin) => collectionsOf(origin).listOf('north').ids([null, null], 0, 3)],
    [
      'survey',
      (origin) =>
        hotelsOf(origin).list.survey(
          [
            ['h', null],
            [null, 'h9'],
          ],
          100,
        ),
    ],
    [
      'survey of it',
      (origin) =>
        collectionsOf(origin)
          .listOf('north')
          .survey([['h', null]], 3),
    ],
    ['count of members', (origin) => collectionsOf(origin).count('north')],
    ['members', (origin) => collectionsOf(origin).membersAfter('north', 'h1', 3)],
    ['membership', (origin) => collectionsOf(origin).membershipOf('north', ['h1', 'h2', 'none'])],
    ['key', (origin) => origin.rows(KEY_QUERY, [SHA256])],
    ['prefixes', (origin) => new ApiKeyCache({ origin } as never).preload()],
    ['only a label', (origin) => origin.rows('select 1', [])],
  ];
  const reads: [name: string, text: string, parameters: readonly unknown[]][] = [];
  for (const [name, work] of works)
    for (const [text, parameters] of await statementsOf(work)) reads.push([name, text, parameters]);
  const changes: typeof reads = [
    ['changes', changesQuery(null), [position, 10]],
    ['changes of a collection', changesQuery('$3'), [position, 10, 'north']],
    ['walk', walkQuery(null), [position, 3, '']],
    ['walk of a collection', walkQuery('$4'), [null, 3, '', 'north']],
  ];
  return [...reads, ...changes];
}

/** Sorts rows whose order is not specified. */
function inOrder(name: string, rows: unknown): unknown {
  const idOf = (row: unknown) =>
    JSON.stringify(Object.entries(row as object).filter(([key]) => /id$/.test(key)));
  return UNORDERED.test(name) ? (rows as object[]).toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1)) : rows;
}

/** Does everything; returns what each statement has returned. Numbers that each server gives itself count from the beginning. */
async function resultsOf({ ask, write }: Database): Promise<[string, unknown][]> {
  const results: [string, unknown][] = [];
  const transactions = new Map<string, number>();
  const histories = new Map<string, number>();
  // the upper half of a transaction's number in a row of the log is random
  const transactionOf = (value: unknown) =>
    numberOf(transactions, String(BigInt(value as string) & 0xffff_ffffn));
  const numberOf = (map: Map<string, number>, value: string) => {
    if (!map.has(value)) map.set(value, map.size);
    return map.get(value);
  };
  const [first] = (await ask(...(await statementsOf((_, log) => log.historyStart()))[0]!)) as [
    { history: string; position: number; transaction: string },
  ];
  const base = first.position;
  const plain = (name: string, value: unknown): unknown => {
    if (value === null || value === undefined) return null;
    if (Array.isArray(value)) return value.map((each) => plain(name, each));
    if (name === 'state') {
      const { day: _, ...state } = JSON.parse(value as string);
      return plain('', state);
    }
    if (typeof value === 'object') {
      const entries = Object.entries(value).filter(
        ([key, each]) => each !== null && !/^(ageMs|secret|name|server)$/.test(key),
      );
      return Object.fromEntries(entries.map(([key, each]) => [key, plain(key, each)]));
    }
    if (/transaction/i.test(name)) return transactionOf(value);
    if (name === 'history') return numberOf(histories, String(value));
    if (/^(position|oldest|last|label|log_position|deletedTo)$/.test(name)) return Number(value) - base;
    return value;
  };
  const read = async (what: string, { position, transaction }: typeof first) => {
    // the order of the ids of one statement is not specified either
    for (const [name, text, parameters] of await readsAt(position, transaction))
      if (!(name === 'changes' && what.startsWith('many')))
        results.push([`${what}: ${name}`, inOrder(name, plain('', await ask(text, parameters)))]);
  };
  let cursor = first;
  for (const [name, sql, statements] of WRITES) {
    await write(sql, statements);
    await read(`${name}, unread`, cursor);
    for (let isDue = true; isDue; ) {
      const [call] = await statementsOf((_, log) => log.sequenceAndPoll(cursor));
      const [text] = call!;
      const rows = ((await ask(text, [])) as object[][]).at(-1)!;
      results.push([`${name}: sequenced`, plain('', rows)]);
      const [state] = rows as [{ history: string; last: number; lastTransaction: string; isDue: boolean }];
      isDue = state.isDue;
      await read(name, cursor);
      cursor = { history: state.history, position: state.last, transaction: state.lastTransaction };
    }
  }
  const lost = { ...cursor, transaction: '1' };
  // of another history, with a cursor that is there, and with one that is lost
  for (const [i, known] of [{ ...lost, history: 'another' }, cursor, lost].entries()) {
    await ask(...(await statementsOf((_, log) => log.beginHistory(known.history, known)))[0]!);
    await read(`history ${i}`, cursor);
  }
  return results;
}

/** What a statement returns that the server rejects. */
const rejected = ({ code }: { code?: string }) => [{ rejected: code }];

async function resultsOfModel(hasReplica = false): Promise<[string, unknown][]> {
  beginWrites();
  const world = new World('models', Date.UTC(2026, 0, 1), false);
  const cluster = new PgCluster(world, new Network(world), SIZES, [], []);
  // the database of the test is a copy of another one, and begins a history too
  if (hasReplica) cluster.addReplica();
  else cluster.replaceBy(cluster.primary.folder, false);
  const there = { down: (deliver: () => void) => deliver() } as Connection;
  return resultsOf({
    ask: async (text, parameters) => {
      const { promise, resolve } = Promise.withResolvers<Answer>();
      const server = WRITING.test(text) ? cluster.primary : (cluster.replica ?? cluster.primary);
      await world.run(world.nowMs + REPLAY_MS);
      server.execute(there, text, (at) => execute(at, text, parameters), resolve);
      await world.run(world.nowMs + ANSWER_MS);
      const answer = await promise;
      return 'fault' in answer ? rejected(answer.fault) : answer.rows;
    },
    write: async (_, statements) => {
      cluster.write(statements, 0);
    },
  });
}

/** `readUrl`: of a replica or a pooler. */
async function resultsOfServer(
  ownerUrl: string,
  readUrl = ownerUrl,
  isReplica = false,
): Promise<[string, unknown][]> {
  const owner = postgres(ownerUrl, { max: 1, onnotice: () => {} });
  const reader = readUrl === ownerUrl ? owner : postgres(readUrl, { max: 1, onnotice: () => {} });
  try {
    return await resultsOf({
      ask: async (text, parameters) => {
        if (WRITING.test(text)) return owner.unsafe(text).simple();
        if (isReplica) await replayed(owner, reader);
        return reader.unsafe(text, parameters as never[]).catch(rejected);
      },
      write: async (sql) => {
        await owner.begin(async (transaction) => {
          for (const text of sql) await transaction.unsafe(text);
        });
      },
    });
  } finally {
    await Promise.all([owner.end(), reader.end()]);
  }
}

async function replayed(owner: Sql, replica: Sql): Promise<void> {
  const [written] = await owner`select pg_current_wal_lsn()::text as at`;
  const isThere = async () =>
    (await replica`select pg_last_wal_replay_lsn() >= ${written!.at}::pg_lsn as is_there`)[0]!.is_there;
  await expect.poll(isThere).toBe(true);
}

function compare(found: [string, unknown][], expected: [string, unknown][]): void {
  const at = expected.findIndex((each, i) => !isDeepStrictEqual(each, found[i]));
  // the first difference says enough
  if (at >= 0) expect(found[at]).toEqual(expected[at]);
  expect(found.length).toBe(expected.length);
}

const hasPgBouncer = !(await lacks('pgbouncer'));

describe('the model of PostgreSQL answers every statement of the service as', () => {
  it('PostgreSQL does', async () => {
    const { ownerUrl } = await freshDatabase();
    compare(await resultsOfModel(), await resultsOfServer(ownerUrl));
  });

  it.runIf(hasPgBouncer)('PgBouncer does', async () => {
    const { ownerUrl } = await freshDatabase();
    const { url } = await startPgBouncer(ownerUrl, 1);
    compare(await resultsOfModel(), await resultsOfServer(ownerUrl, url));
  });

  it('a replica does', async () => {
    const { ownerUrl } = await ownPostgres(20);
    const { port } = await ownReplica(ownerUrl);
    const url = Object.assign(new URL(ownerUrl), { port: String(port) }).href;
    compare(await resultsOfModel(true), await resultsOfServer(ownerUrl, url, true));
  });
});

/** Commands that the service sends to Redis; those of one line to a server or to nodes of a cluster alike. */
const COMMANDS: (string | number)[][] = [
  ['MGET', 'a', 'b'],
  ['SET', 'a', 'x', 'PX', 60_000],
  ['MGET', 'a', 'b'],
  ['EVAL', SET_EACH, 2, 'a', 'b', 'y', 60_000, 'z', 60_000],
  ['MGET', 'b', 'a', 'a'],
  ['SET', 'gone', 'x', 'PX', 1],
];

/** Reply without what differs between servers: remaining times, ports, and texts of errors behind their code and slot. */
function plainReply(reply: unknown): unknown {
  if (Buffer.isBuffer(reply)) return reply.toString();
  if (Array.isArray(reply)) return reply.map(plainReply);
  if (reply instanceof Error) return /^(MOVED \d+|[A-Z]+)/.exec(reply.message)![0];
  return typeof reply === 'number' && reply > 50_000 ? 'a minute' : reply;
}

const wordsOf = (words: (string | number)[]) => words.map((word) => Buffer.from(String(word)));
const replyOf = (client: Redis, [name, ...words]: (string | number)[]) =>
  client.call(String(name), ...words).catch((error: Error) => error);

async function compareReply(client: Redis, server: RedisServer, words: (string | number)[]): Promise<void> {
  const reply = await replyOf(client, words);
  expect(plainReply(server.execute(wordsOf(words))), `${words} at ${server.name}`).toEqual(plainReply(reply));
}

describe('the model of Redis answers every command of the service as', () => {
  it.runIf(inject('servers').redisUrl)('Redis does', async () => {
    const { client } = await freshRedis();
    const world = new World('models', 0, false);
    const [server] = new RedisServers(world, 1, false).servers;
    for (const words of COMMANDS) await compareReply(client, server!, words);
    await expect.poll(() => client.mget('gone', 'a')).toEqual([null, 'y']);
    await world.run(2);
    expect(plainReply(server!.execute(wordsOf(['MGET', 'gone', 'a'])))).toEqual([null, 'y']);
  });

  it.runIf(inject('servers').redisProgram)('a replica does', async () => {
    const { client } = redisAt((await ownRedis(() => ['--replicaof', '127.0.0.1', '1'])).url);
    const [server] = new RedisServers(new World('models', 0, false), 1, false).servers;
    server!.rejectsWrites = true;
    for (const words of COMMANDS) await compareReply(client, server!, words);
  });

  it.runIf(inject('servers').redisProgram)('the nodes of a cluster do', async () => {
    const { masters } = await OwnCluster.start('');
    const { servers } = new RedisServers(new World('models', 0, false), 3, true);
    for (const key of ['a', 'b', 'c', 'd', 'e'])
      for (const [i, server] of servers.entries()) {
        await compareReply(masters[i]!.admin, server, ['SET', key, 'x', 'PX', 60_000]);
        await compareReply(masters[i]!.admin, server, ['MGET', key]);
      }
    const sharesIn = (map: unknown) => mastersBySlot(map, '').map((name, _, all) => all.indexOf(name));
    const map = servers[0]!.execute(wordsOf(['CLUSTER', 'SLOTS']));
    expect(sharesIn(map)).toEqual(sharesIn(await replyOf(masters[0]!.admin, ['CLUSTER', 'SLOTS'])));
  });
});
