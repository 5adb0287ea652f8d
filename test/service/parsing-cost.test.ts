import { hash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ApiKeyCache } from '../../src/auth/api-key-cache.ts';
import { isWellFormed, makeKey } from '../../src/auth/key.ts';
import type { HotelReader } from '../../src/cache/hotel-reader.ts';
import { LocalCache } from '../../src/cache/local-cache.ts';
import type { ChangesReader } from '../../src/changes/changes-reader.ts';
import type { Collections } from '../../src/collections/collections.ts';
import { freePort } from '../../src/demo/servers/port.ts';
import type { HotelList } from '../../src/hotels/hotel-list.ts';
import { changesOperation } from '../../src/http/changes-handler.ts';
import { keyOperation } from '../../src/http/key-handler.ts';
import { hotelOperations } from '../../src/http/operations.ts';
import { pipelineFor } from '../../src/http/request-pipeline.fixture.ts';
import { openServer } from '../../src/http/server.ts';
import { StaticPage } from '../../src/http/static-page.ts';
import type { Origin } from '../../src/postgres/origin.ts';
import { closeAtEnd } from '../support/cleanup.ts';

/** Length of each request; the HTTP library rejects longer heads. */
const BYTES = 4_096;
/** Requests that are sent, and timed, at once. */
const PIPELINED = 16;
/** A benign request takes 8 µs, so that one of the same length takes at most 100. */
const MAX_KEYLESS = 12;
/** Three parameters are looked for and decoded, in at most 200 µs. */
const MAX_KEYED = 20;
/** The least processor time of so many measurements is compared: collections of garbage and compilations only add to it. */
const ROUNDS = 9;
const RUNS = 200;

/** Begins each response. */
const STATUS = 'HTTP/1.1 ';
const KEY = makeKey();
const KEY_LINE = `x-api-key: ${KEY}\r\n`;
let port: number;

beforeAll(async () => {
  port = await startServer();
});

/** Starts the server without hotels and dependencies: what it does is parsing. */
async function startServer(): Promise<number> {
  const principal = { keyId: 'k', view: 'full', expiresAtMs: Infinity, limit: null, collection: null };
  const apiKeys = {
    find: (key: string) => (key === KEY ? principal : isWellFormed(key) ? undefined : null),
    load: async () => null,
  } as unknown as ApiKeyCache;
  const pipeline = pipelineFor(apiKeys);
  const local = new LocalCache(0, {
    freshness: { oldestReadMs: () => 0 },
    absentTtlMs: 0,
    refresh: () => {},
    counts: { hit: 0, absent: 0, miss: 0 },
  });
  const reader = { load: async (_: string, keys: string[]) => keys.map(() => undefined) };
  const list = { cachedPage: () => ({ ids: [], more: false, total: 0 }) };
  const changes = { behind: () => undefined, upToDate: () => undefined, page: async () => 'expired' };
  const operations = {
    ...hotelOperations(
      {
        ...{ local, redisBatch: undefined, collections: {} as Collections },
        reader: reader as unknown as HotelReader,
        hotelList: list as unknown as HotelList,
      },
      ...(['', undefined] as const),
    ),
    changes: changesOperation(changes as unknown as ChangesReader, '', apiKeys, () => {}),
    key: keyOperation({ rows: async () => [] } as unknown as Origin),
  };
  const page = new StaticPage('text/html', '', () => Buffer.alloc(8_000, 'page '));
  const limit = { maxConnections: 100, onRejected: () => {} };
  const server = openServer(operations, pipeline, new Map([['/docs', page]]), '', limit);
  const free = await freePort();
  await server.listen('127.0.0.1', free);
  closeAtEnd('server', async () => {
    await server.stopAccepting();
    server.close();
  });
  return free;
}

const processorMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
};

/** Sends requests one behind the other, and measures the processor time of this process until all are answered. */
class Sender {
  readonly #all: Buffer;
  readonly #socket = connect(port, '127.0.0.1').setNoDelay(true);
  #closed = false;
  #left = 0;
  #rest = '';
  #done = () => {};

  constructor(request: Buffer) {
    this.#all = Buffer.concat(new Array(PIPELINED).fill(request));
    this.#socket.on('error', () => {});
    this.#socket.on('data', (chunk) => {
      const received = this.#rest + chunk.toString('latin1');
      this.#left -= received.split(STATUS).length - 1;
      // a chunk may end within a status line
      this.#rest = received.slice(-(STATUS.length - 1));
      if (this.#left <= 0) this.#done();
    });
    this.#socket.on('close', () => {
      this.#closed = true;
      this.#done();
    });
  }

  async connected(): Promise<void> {
    await once(this.#socket, 'connect');
  }

  /** Resolves with the processor time in ms; undefined: the server closed the connection. */
  async send(): Promise<number | undefined> {
    if (this.#closed) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#done = resolve;
    this.#left = PIPELINED;
    const beganMs = processorMs();
    this.#socket.write(this.#all);
    await promise;
    return this.#closed ? undefined : processorMs() - beganMs;
  }

  close(): void {
    this.#socket.destroy();
  }
}

/**
 * Returns the time of a request as a multiple of that of another one: the ratio of the least of alternate measurements.
 * Undefined for a request after which the server closes the connection.
 */
async function ratioOf(request: Buffer, benign: Buffer): Promise<number | undefined> {
  const senders = [new Sender(request), new Sender(benign)];
  const times: number[][] = [[], []];
  try {
    for (const sender of senders) await sender.connected();
    for (let round = 0; round < ROUNDS; round++)
      for (const [i, sender] of senders.entries()) {
        const ms = await sender.send();
        if (ms === undefined) return undefined;
        times[i]!.push(ms);
      }
  } finally {
    for (const sender of senders) sender.close();
  }
  const [own, other] = times.map((all) => Math.min(...all));
  return own! / other!;
}

/** A part that is repeated up to the length of the request. */
interface Filled {
  before: string;
  unit: string;
  after: string;
}

function written({ before, unit, after }: Filled): Buffer {
  const room = BYTES - before.length - after.length;
  const rest = room % unit.length;
  // each request has the same length
  return Buffer.from(before + 'x'.repeat(rest) + unit.repeat((room - rest) / unit.length) + after, 'latin1');
}

const PIECES = fc.constantFrom(
  ...'%zz %zz& % %4 %ff %41 %e2%82%ac %c3 %2f \xe9 \xf0\x9f\x98\x80 + & = / // limit limit=1& after=%zz&'.split(
    ' ',
  ),
  ...'registry_id= %6cimit l r . .. ; ? 0 - 00- " "", W/" * , gzip ;q=0.5 br;q= identity a A \\ hk_'.split(
    ' ',
  ),
);
const ANY = fc.stringMatching(/^[!-~]{1,3}$/);
const UNIT = fc
  .array(fc.oneof({ weight: 3, arbitrary: PIECES }, ANY), { minLength: 1, maxLength: 3 })
  .map((parts) => parts.join(''));
const METHOD = fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'POST', 'PUT');
const PATHS =
  '/hotels /hotels /changes /docs /hotels/a /hotels/channel/a /hotels/registry/1 /hotels/channel/batch /x /';
const PATH = fc.constantFrom(...PATHS.split(' '));
const HEADER = fc.constantFrom(
  ...['accept-encoding', 'if-none-match', 'traceparent', 'x-request-id', 'cookie', 'content-encoding'],
);
/** the library accepts up to a hundred headers */
const LINES = fc.integer({ min: 2, max: 90 });

/** Requests without a body, with one long part: in the path, the query, a header, or many headers. */
const request = (keyLine: fc.Arbitrary<string>) =>
  fc
    .record({ method: METHOD, path: PATH, unit: UNIT, key: keyLine, header: HEADER, lines: LINES })
    .chain(({ method, path, unit, key, header, lines }) => {
      // without it a POST closes the connection
      const head = ` HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n${key}`;
      const many = `b: ${unit}\r\n`.repeat(Math.min(lines, Math.floor(3_000 / (unit.length + 5))));
      return fc.constantFrom<Filled>(
        { before: `${method} ${path}`, unit, after: `${head}\r\n` },
        { before: `${method} ${path}/`, unit, after: `${head}\r\n` },
        { before: `${method} ${path}?`, unit, after: `${head}\r\n` },
        { before: `${method} ${path}?`, unit, after: `${head}\r\n` },
        { before: `${method} ${path}${head}${header}: `, unit, after: '\r\n\r\n' },
        { before: `${method} ${path}${head}${many}c: `, unit: 'c', after: '\r\n\r\n' },
      );
    });

/** Requests with a token whose checksum is right, around any text. */
const forged = (keyLine: string) =>
  fc
    .tuple(fc.constantFrom('', '[1,"', '[1,"h",5,"', '{"'), UNIT, fc.nat(2_900))
    .map(([before, unit, length]) => {
      const text = Buffer.from(before + unit.repeat(Math.ceil(length / unit.length))).subarray(0, 2_900);
      const content = text.toString('base64url');
      const checksum = hash('sha256', `change token ${content}`, 'base64url').slice(0, 8);
      const after = ` HTTP/1.1\r\nhost: h\r\n${keyLine}\r\n`;
      return { before: `GET /changes?after=${checksum}${content}&x=`, unit: 'x', after };
    });

/** Requests that took 5 to 700 times as long as a benign one in earlier versions. */
const COSTLY_BEFORE = [
  ...['%zz&', '&', 'r&'].map((unit) => (key: string) => ({
    before: 'GET /hotels?',
    unit,
    after: ` HTTP/1.1\r\nhost: h\r\n${key}\r\n`,
  })),
  ...['accept-encoding: *,', 'accept-encoding: gzip;q=0.1,', 'if-none-match: "",'].map(
    (line) => (key: string) => ({
      before: `GET /docs HTTP/1.1\r\nhost: h\r\n${key}${line}`,
      unit: line.split(' ')[1]!,
      after: '\r\n\r\n',
    }),
  ),
];

const benignWith = (key: string) =>
  written({ before: `GET /hotels HTTP/1.1\r\nhost: h\r\n${key}user-agent: `, unit: 'a', after: '\r\n\r\n' });

const NO_KEY = fc.oneof(
  fc.constant(''),
  UNIT.map((unit) => `x-api-key: ${unit}\r\n`),
);

describe('a request takes about as much processor time as a benign one of its length, whatever its path, query and headers', () => {
  it.each([
    ['without a valid key', NO_KEY, '', MAX_KEYLESS],
    ['with one', fc.constant(KEY_LINE), KEY_LINE, MAX_KEYED],
  ])('%s', async (_, keyLine, benignKey, maxRatio) => {
    const benign = benignWith(benignKey);
    // until the code is optimised, on another thread, it takes fifty times as long
    for (let i = 0; i < 10; i++)
      for (const filled of COSTLY_BEFORE) await ratioOf(written(filled(benignKey)), benign);
    let judged = 0;
    const fits = async (filled: Filled) => {
      const generated = written(filled);
      const ratio = await ratioOf(generated, benign);
      if (ratio === undefined) return;
      judged++;
      expect(ratio, 'times as long as a benign request').toBeLessThan(maxRatio);
    };
    const requests = fc.oneof({ weight: 9, arbitrary: request(keyLine) }, forged(benignKey));
    await fc.assert(fc.asyncProperty(requests, fits), {
      numRuns: RUNS,
      examples: COSTLY_BEFORE.map((filled) => [filled(benignKey)]),
    });
    expect(judged).toBeGreaterThan(RUNS / 2);
  });
});
