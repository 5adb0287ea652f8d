import type { HttpResponse } from 'uWebSockets.js';
import { randomBytes } from 'node:crypto';
import { Registry } from 'prom-client';
import { afterEach, beforeEach, describe, expect, it, type Mocked, vi } from 'vitest';
import { StoredTag } from '../cache/arena/tag.ts';
import { publicErrors } from '../errors.ts';
import { nextIteration } from '../lib/clock.ts';
import { EventLoop } from '../lib/event-loop.ts';
import { RequestHistogram } from '../observability/request-histogram.ts';
import { type Compressed, compress, MAX_SYNC_BYTES } from './compression.ts';
import { Exchange, type Observer } from './exchange.ts';
import { requestWith } from './request.fixture.ts';

vi.mock('./compression.ts', async (original) => ({ ...(await original<object>()), compress: vi.fn() }));
// fake timers replace the global
vi.mock('node:perf_hooks', () => ({
  get performance() {
    return globalThis.performance;
  },
}));

/** Response of uWebSockets.js to a client that reads and disconnects on request. */
class Client {
  abort = () => {};
  readonly heads: string[] = [];
  sent = 0;
  ended = false;
  /** bytes that it reads at once */
  takes = Number.POSITIVE_INFINITY;
  #onWritable: ((offset: number) => boolean) | undefined;

  readonly response = {
    onAborted: (listener: () => void) => {
      this.abort = listener;
    },
    cork: (work: () => void) => work(),
    writeStatus: (head: Uint8Array) => {
      this.heads.push(Buffer.from(head).toString('latin1'));
      return this.response;
    },
    writeHeader: () => this.response,
    getWriteOffset: () => this.sent,
    end: (body: Uint8Array) => this.#take(body, body.length),
    tryEnd: (body: Uint8Array, total: number) => this.#take(body, total),
    onWritable: (listener: (offset: number) => boolean) => {
      this.#onWritable = listener;
    },
    close: () => this.abort(),
  };

  take(bytes: number): void {
    this.takes = bytes;
    this.#onWritable!(this.sent);
  }

  #take(body: Uint8Array, total: number): [ok: boolean, done: boolean] {
    this.sent += Math.min(body.length, this.takes);
    this.ended = this.sent === total;
    return [body.length <= this.takes, this.ended];
  }
}

const counter = new RequestHistogram(new Registry(), 'seconds', 'Time').at('batch_by_channel', 'POST');
let client: Client;
let observer: Mocked<Observer>;

const exchangeFor = (headers: Record<string, string> = {}) => {
  const request = requestWith(...Object.entries(headers));
  return new Exchange(client.response as unknown as HttpResponse, request, counter, observer);
};

beforeEach(() => {
  client = new Client();
  observer = {
    mustClose: vi.fn<Observer['mustClose']>(() => false),
    compresses: true,
    eventLoop: new EventLoop() as Mocked<EventLoop>,
    access: { mayStillSend: vi.fn(async () => true) },
    failed: vi.fn<Observer['failed']>((exchange) => exchange.fail(publicErrors.internal)),
    sending: vi.fn<Observer['sending']>(),
    finished: vi.fn<Observer['finished']>(),
  };
});

it('a response that waits for the next iteration keeps its tag', async () => {
  vi.spyOn(observer.eventLoop, 'isUsedUp').mockReturnValue(true);
  const memory = Buffer.from('tag-of-first');
  const tag = new StoredTag(memory);
  exchangeFor().okEncoded(Buffer.from('{}'), tag, undefined);
  memory.write('tag-of-other');
  exchangeFor().okEncoded(Buffer.from('{}'), tag, undefined);
  await new Promise(setImmediate);
  const tags = client.heads.map((head) => /etag: "(.*)"/.exec(head)?.[1]);
  expect(tags).toEqual(['tag-of-first', 'tag-of-other']);
});

describe('a response that is compressed', () => {
  const body = randomBytes(MAX_SYNC_BYTES + 1);
  let compression: PromiseWithResolvers<Compressed>;
  let made: ReturnType<typeof vi.fn<() => void>>;

  beforeEach(() => {
    compression = Promise.withResolvers();
    made = vi.fn<() => void>();
    vi.mocked(compress).mockReturnValue(compression.promise);
  });

  it('is made when it is compressed, although its client disconnected before', async () => {
    for (const disconnects of [false, true]) {
      client = new Client();
      compression = Promise.withResolvers();
      made.mockClear();
      vi.mocked(compress).mockReturnValue(compression.promise);
      const exchange = exchangeFor({ 'accept-encoding': 'gzip' });
      exchange.ok(body, '');
      exchange.whenMade(made);
      if (disconnects) client.abort();
      await new Promise(setImmediate);
      expect(made).not.toHaveBeenCalled();
      compression.resolve({ bytes: body.subarray(0, 100), encoding: 'gzip' });
      await expect.poll(() => made).toHaveBeenCalledTimes(1);
      expect(client.sent).toBe(disconnects ? 0 : 100);
    }
  });

  it.each([
    ['gzip', /content-encoding: gzip/],
    [undefined, /^(?!.*content-encoding)/s],
  ] as const)('is sent as %s, if its key may still have it', async (encoding, head) => {
    const exchange = exchangeFor({ 'accept-encoding': 'gzip' });
    exchange.ok(body, '');
    compression.resolve({ bytes: body, encoding });
    await expect.poll(() => client.heads).toEqual([expect.stringMatching(head)]);
  });

  it.each([
    [null, 'compressed'],
    ['c', 'sent as it is'],
  ])('of more than 8 MiB for a key of collection %s is %s', (collection, how) => {
    const exchange = exchangeFor({ 'accept-encoding': 'gzip' });
    exchange.principal = { keyId: 'k', view: 'full', expiresAtMs: null, limit: null, collection };
    vi.mocked(compress).mockClear();
    exchange.ok(new Uint8Array(8 * 1024 * 1024 + 1), '');
    expect(vi.mocked(compress)).toHaveBeenCalledTimes(how === 'compressed' ? 1 : 0);
    expect(client.ended).toBe(how !== 'compressed');
  });

  it('is not sent to a key that has been revoked meanwhile', async () => {
    const exchange = exchangeFor({ 'accept-encoding': 'gzip' });
    vi.mocked(observer.access.mayStillSend).mockImplementation(async () => {
      exchange.fail(publicErrors.unauthorized);
      return false;
    });
    exchange.ok(body, '');
    compression.resolve({ bytes: body, encoding: 'gzip' });
    await expect.poll(() => client.ended).toBe(true);
    expect(client.heads).toEqual([expect.stringMatching(/^401/)]);
  });

  it('is finished once, also if compression fails', async () => {
    const exchange = exchangeFor({ 'accept-encoding': 'gzip' });
    exchange.ok(body, '');
    exchange.whenMade(made);
    compression.reject(new Error('no memory'));
    await expect.poll(() => client.ended).toBe(true);
    expect(made).toHaveBeenCalledTimes(1);
    expect(observer.finished).toHaveBeenCalledWith(exchange, 500, expect.any(Number), expect.any(Number));
  });

  it('is finished when its client disconnects before a thread works on it', () => {
    const exchange = exchangeFor({ 'accept-encoding': 'gzip' });
    exchange.defer();
    exchange.whenMade(made);
    client.abort();
    expect(made).toHaveBeenCalledTimes(1);
  });
});

describe('a response to a slow client', () => {
  const body = new Uint8Array(100_000);

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] });
    client.takes = 40_000;
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each([
    ['has taken all of it', 200, 100_000, () => client.take(60_000)],
    ['has left', 0, 0, () => client.abort()],
  ])('is measured until it is ready, and ends when the client %s', async (_, status, bytes, end) => {
    const exchange = exchangeFor();
    exchange.defer();
    vi.advanceTimersByTime(20);
    exchange.ok(body, '');
    expect(observer.sending).toHaveBeenCalledTimes(1);
    expect(exchange.sending).toBe(true);
    await nextIteration();
    vi.advanceTimersByTime(3_000);
    expect(observer.finished).not.toHaveBeenCalled();
    end();
    expect(observer.finished).toHaveBeenCalledExactlyOnceWith(exchange, status, expect.any(Number), bytes);
    expect(observer.finished.mock.calls[0]![2]).toBeCloseTo(0.02, 6);
  });

  it('is written on when other work leaves time', () => {
    const exchange = exchangeFor();
    exchange.ok(body, '');
    const { eventLoop } = observer;
    const append = vi.spyOn(eventLoop, 'append').mockImplementation(() => {});
    vi.spyOn(eventLoop, 'hasTime').mockReturnValue(false);
    client.take(60_000);
    expect([client.sent, client.ended]).toEqual([40_000, false]);
    const [, , write] = append.mock.calls[0]!;
    write(0);
    expect([client.sent, client.ended]).toEqual([100_000, true]);
    expect(observer.finished).toHaveBeenCalledTimes(1);
    write(0);
    expect(client.sent).toBe(100_000);
  });
});
