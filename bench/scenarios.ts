import { makeKey } from '../src/auth/key.ts';
import { randomFrom, shuffled, zipf } from './draws.ts';
import { type ExpectedHotel, hotelFor } from './hotels.ts';
import { type Call, type RequestParts, requestBytes } from './load/call.ts';
import type { TargetName } from './targets/target.ts';

/** Kind of request, sent to each target. */
export interface Scenario {
  name: string;
  title: string;
  /** small responses, requested by wrk if it is installed */
  small: boolean;
  connections: number;
  /** targets that do not support it */
  without?: TargetName[];
  /** scenarios of one group are compared with each other, and interleaved */
  group?: string;
  calls: (around: Known) => Call[];
}

interface Known {
  hotels: ExpectedHotel[];
  keys: { full: string; narrow: string };
}

const SEED = 7;
/** At most the concurrency of key lookups: further unknown keys would first be rejected with 503. */
const UNKNOWN_KEYS = 8;
const NO_LIST: TargetName[] = ['nginx', 'nginx-redis'];
/** Targets without compression, or of no interest for pages beside batches. */
const PEERS: TargetName[] = ['nginx', 'nginx-redis', 'fastify', 'limit'];

/** Accept-Encoding of the default clients of three languages. */
export const CLIENTS = [
  ['go', 'gzip'],
  ['node', 'gzip, deflate'],
  ['python', 'gzip, deflate, br, zstd'],
] as const;
/** Requested of the main scenarios: no default client takes br alone. */
const ACCEPTED = [...CLIENTS, ['br', 'br']] as const;
const TITLES_OF_CLIENTS = { go: 'Go', node: 'Node', python: 'Python', br: 'a client of br alone' };
/** Number of hotels that are requested compressed: few enough that the warm-up requests each of them twice. */
const COMPRESSED_HOTELS = 10_000;
/** Number of pages of the list that are requested one after the other. */
const PAGES = 50;

/** All scenarios, in the order in which they are run and shown. */
export const SCENARIOS: Scenario[] = [
  get('get', 'GET by id, uniform', ({ hotels, keys }) =>
    inRandomOrder(hotels).map((hotel) => single(hotel, 'id', keys.full, true)),
  ),
  get('get-zipf', 'GET by id, Zipf', ({ hotels, keys }) => {
    const draw = zipf(hotels.length, randomFrom(SEED));
    return Array.from({ length: 100_000 }, () => single(hotels[draw()]!, 'id', keys.full, true));
  }),
  get('get-channel', 'GET by channel id, uniform', ({ hotels, keys }) =>
    withChannel(hotels).map((hotel) => single(hotel, 'channel', keys.full, true)),
  ),
  get('get-narrow', 'GET by id, a key without the scope', ({ hotels, keys }) =>
    inRandomOrder(hotels).map((hotel) => single(hotel, 'id', keys.narrow, false)),
  ),
  get('unknown-key', 'GET with an unknown key: 401', ({ hotels }) => {
    const unknown = Array.from({ length: UNKNOWN_KEYS }, makeKey);
    return hotels.slice(0, 20_000).map(({ id }, i) => ({
      bytes: requestBytes({ path: `/hotels/${id}`, key: unknown[i % UNKNOWN_KEYS]! }),
      status: 401,
      bodyBytes: '{"error":"Unauthorized"}'.length,
      body: () => ({ error: 'Unauthorized' }),
    }));
  }),
  ...ACCEPTED.map(([client, accept]) => ({
    ...get(`get-${client}`, `GET by id, as ${TITLES_OF_CLIENTS[client]} asks`, ({ hotels, keys }) =>
      inRandomOrder(hotels)
        .slice(0, COMPRESSED_HOTELS)
        .map((hotel) => accepting(accept, single(hotel, 'id', keys.full, true))),
    ),
    without: PEERS,
  })),
  batch(10, 5_000, 32),
  { ...batch(100, 1_000, 16), group: 'pages of 100' },
  batch(1000, 200, 8),
  {
    ...batch(1000, 200, 8, false),
    name: 'batch-1000-narrow',
    title: 'batch of 1000, a key without the scope',
  },
  {
    ...batch(1000, 200, 8, true, false, 'id'),
    name: 'batch-1000-ids',
    title: 'batch of 1000 by own id',
    group: 'batch-1000',
    without: PEERS,
  },
  ...ACCEPTED.map(([client, accept]): Scenario => {
    const usual = batch(1000, 200, 8);
    return {
      ...usual,
      name: `batch-1000-${client}`,
      title: `batch of 1000, as ${TITLES_OF_CLIENTS[client]} asks`,
      without: PEERS,
      calls: (known) => usual.calls(known).map((call) => accepting(accept, call)),
    };
  }),
  { ...list('page-20', 'list of 20', 32, (known) => pages(known, 20)), group: 'pages of 20', without: PEERS },
  {
    ...list('page-20-go', 'list of 20, as Go requests it', 32, (known) =>
      pages(known, 20).map((call) => accepting('gzip', call)),
    ),
    group: 'pages of 20',
    without: PEERS,
  },
  {
    ...list('page-100', 'list of 100', 16, (known) => pages(known, 100)),
    group: 'pages of 100',
    without: PEERS,
  },
  { ...batch(20, 5_000, 32), group: 'pages of 20', without: PEERS },
  list('page-start', 'list, 100 at offset 0', 16, (known) => [page(known, 0)]),
  list('page-end', 'list, 100 at the end', 16, (known) => [page(known, known.hotels.length - 100)]),
];

function get(name: string, title: string, calls: Scenario['calls']): Scenario {
  return { name, title, small: true, connections: 64, calls };
}

function list(name: string, title: string, connections: number, calls: Scenario['calls']): Scenario {
  return { name, title, small: false, connections, without: NO_LIST, calls };
}

/** Returns the request of a page of the list. */
export function page({ hotels, keys }: Known, offset: number, limit = 100): Call {
  const send = { path: `/hotels?limit=${limit}&offset=${offset}`, key: keys.full };
  return many(hotels.slice(offset, offset + limit), send, true);
}

function pages(known: Known, limit: number): Call[] {
  return Array.from({ length: PAGES }, (_, i) => page(known, i * limit, limit));
}

/** Returns the same request with this Accept-Encoding. */
export function accepting(accept: string, call: Call): Call {
  const text = call.bytes.toString('latin1').replace('\r\n', `\r\naccept-encoding: ${accept}\r\n`);
  return { ...call, bytes: Buffer.from(text, 'latin1'), mayBeCompressed: true };
}

/** Returns the request of a batch of hotels by their channel ids, or by their own. */
export function batchOf(
  hotels: ExpectedHotel[],
  key: string,
  scoped: boolean,
  by: 'channel' | 'id' = 'channel',
): Call {
  if (by === 'id') {
    const json = JSON.stringify({ ids: hotels.map(({ id }) => id) });
    return many(hotels, { path: '/hotels/batch', key, json }, scoped);
  }
  const json = JSON.stringify({ channel_ids: hotels.map(({ channelId }) => channelId) });
  return many(hotels, { path: '/hotels/channel/batch', key, json }, scoped);
}

function inRandomOrder(hotels: ExpectedHotel[]): ExpectedHotel[] {
  return [...shuffled(hotels.length, randomFrom(SEED))].map((i) => hotels[i]!);
}

/** Returns the hotels with a channel id, in random order. */
export function withChannel(hotels: ExpectedHotel[]): ExpectedHotel[] {
  return inRandomOrder(hotels).filter(({ channelId }) => channelId !== null);
}

/** Returns the scenario of batches of distinct hotels, drawn uniformly or by Zipf's law. */
export function batch(
  size: number,
  count: number,
  connections: number,
  scoped = true,
  byZipf = false,
  by: 'channel' | 'id' = 'channel',
): Scenario {
  return {
    name: `batch-${size}`,
    title: `batch of ${size} by channel id`,
    small: false,
    connections,
    calls: ({ hotels, keys }) => {
      const random = randomFrom(SEED + size);
      const named = withChannel(hotels);
      const wanted = Math.min(size, named.length);
      const draw = byZipf ? zipf(named.length, random) : () => Math.floor(random() * named.length);
      return Array.from({ length: count }, () => {
        const chosen = new Set<ExpectedHotel>();
        while (chosen.size < wanted) chosen.add(named[draw()]!);
        return batchOf([...chosen], scoped ? keys.full : keys.narrow, scoped, by);
      });
    },
  };
}

/** Returns the request of one hotel. */
export function single(hotel: ExpectedHotel, by: 'id' | 'channel', key: string, scoped: boolean): Call {
  const path = by === 'id' ? `/hotels/${hotel.id}` : `/hotels/channel/${hotel.channelId}`;
  return {
    bytes: requestBytes({ path, key }),
    status: 200,
    bodyBytes: scoped ? hotel.fullBytes : hotel.narrowBytes,
    body: () => hotelFor(hotel, scoped),
  };
}

function many(hotels: ExpectedHotel[], parts: RequestParts, scoped: boolean): Call {
  let bodyBytes = 2 + Math.max(0, hotels.length - 1);
  for (const hotel of hotels) bodyBytes += scoped ? hotel.fullBytes : hotel.narrowBytes;
  return {
    bytes: requestBytes(parts),
    status: 200,
    bodyBytes,
    body: () => hotels.map((hotel) => hotelFor(hotel, scoped)),
  };
}
