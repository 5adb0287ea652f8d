import type { HttpResponse } from 'uWebSockets.js';
import { afterEach, beforeEach, describe, expect, it, type Mock, vi } from 'vitest';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { Principal } from '../auth/principal.ts';
import { UsageCounter } from '../auth/usage.ts';
import { fakeTimers, realClocks } from '../lib/clock.fixture.ts';
import type { Exchange } from './exchange.ts';
import { requestWith } from './request.fixture.ts';
import { pipelineFor } from './request-pipeline.fixture.ts';
import type { RequestPipeline } from './request-pipeline.ts';

const ACCESS: Principal = {
  keyId: 'key_a',
  view: 'full',
  expiresAtMs: Number.POSITIVE_INFINITY,
  limit: null,
  collection: null,
};

let pipeline: RequestPipeline;
/** lookup of the only key */
let lookup: PromiseWithResolvers<Principal | null>;
let load: Mock<ApiKeyCache['load']>;
let abort: () => void;
let receive: (chunk: ArrayBuffer, isLast: boolean) => void;
/** statuses of the responses */
const written: string[] = [];

const response = {
  onAborted: (listener: () => void) => {
    abort = listener;
  },
  onData: (listener: typeof receive) => {
    receive = listener;
  },
  cork: (run: () => void) => run(),
  writeStatus: (head: Uint8Array) => written.push(`${head}`.slice(0, 3)),
  end: () => {},
} as unknown as HttpResponse;
const tick = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  written.length = 0;
  receive = () => {};
  lookup = Promise.withResolvers();
  load = vi.fn<ApiKeyCache['load']>(() => lookup.promise);
  const apiKeys = { find: () => undefined, load } as unknown as ApiKeyCache;
  pipeline = pipelineFor(apiKeys);
});

it('nothing is read for a client that disconnected during the lookup of its key', async () => {
  const respond = vi.fn<() => void>();
  const rule = { route: 'hotel', read: () => 'h1', needsRegistry: () => false, respond } as const;
  pipeline.get(rule, 'GET')(response, requestWith(['host', 'localhost']));
  await tick();
  expect(load).toHaveBeenCalledTimes(1);
  abort();
  lookup.resolve(ACCESS);
  await tick();
  expect(respond).not.toHaveBeenCalled();
  expect([pipeline.unfinished, pipeline.finishedCount]).toEqual([0, 1]);
});

it.each([
  ['within a response, counts it', true, 200, 3],
  ['before a response, counts none', false, 0, 0],
])('a client that disconnects %s', (_, sending, status, hotels) => {
  const count = vi.spyOn(UsageCounter.prototype, 'count');
  pipeline.finished({ principal: ACCESS, sending, hotels: 3 } as Exchange, 0, 1, 0);
  expect(count.mock.calls).toEqual([['key_a', status, hotels, 0]]);
  count.mockRestore();
});

it('nothing is read for a batch whose client disconnected during the lookup of its key', async () => {
  const respond = vi.fn<() => void>();
  pipeline.post({ route: 'batch_by_channel', needsRegistry: false, respond })(
    response,
    requestWith(['host', 'localhost'], ['content-length', '24']),
  );
  expect(load).toHaveBeenCalledTimes(1);
  receive(new TextEncoder().encode('{"channel_ids":["a"]}').buffer, true);
  abort();
  lookup.resolve(ACCESS);
  await tick();
  expect(respond).not.toHaveBeenCalled();
});

describe('of a request without a valid key nothing is parsed', () => {
  const keyless = () => pipelineFor({ find: () => null, load } as unknown as ApiKeyCache);
  const read = vi.fn<() => string>();
  const needsRegistry = vi.fn<() => boolean>();
  const respond = vi.fn<() => void>();
  beforeEach(() => vi.clearAllMocks());

  it.each(['GET', 'HEAD'] as const)('%s: neither its path nor its query', (method) => {
    keyless().get({ route: 'hotel', read, needsRegistry, respond }, method)(
      response,
      requestWith(['host', 'localhost']),
    );
    expect(written).toEqual(['401']);
    for (const parse of [read, needsRegistry, respond]) expect(parse).not.toHaveBeenCalled();
  });

  it.each([
    ['of a length', ['content-length', '21']],
    ['in chunks', ['transfer-encoding', 'chunked']],
  ] as [string, [string, string]][])('POST: no body %s', async (_, framing) => {
    keyless().post({ route: 'batch_by_channel', needsRegistry: false, respond })(
      response,
      requestWith(['host', 'localhost'], framing),
    );
    receive(new TextEncoder().encode('{"channel_ids":["a"]}').buffer, true);
    await tick();
    expect(written).toEqual(['401']);
    expect(respond).not.toHaveBeenCalled();
  });

  it('POST: no body that arrives while the key is looked up', async () => {
    pipeline.post({ route: 'batch_by_channel', needsRegistry: false, respond })(
      response,
      requestWith(['host', 'localhost'], ['content-length', '21']),
    );
    receive(new TextEncoder().encode('{"channel_ids":["a"]}').buffer, true);
    lookup.resolve(null);
    await tick();
    expect(written).toEqual(['401']);
    expect(respond).not.toHaveBeenCalled();
  });
});

describe('a key that is revoked while a body arrives', () => {
  const post = (find: ApiKeyCache['find']) => {
    const respond = vi.fn<() => void>();
    const headers = [
      ['host', 'localhost'],
      ['content-length', '21'],
    ] as [string, string][];
    pipelineFor({ find, load } as unknown as ApiKeyCache).post({
      route: 'batch_by_channel',
      needsRegistry: false,
      respond,
    })(response, requestWith(...headers));
    return respond;
  };
  const body = new TextEncoder().encode('{"channel_ids":["a"]}');
  beforeEach(() => fakeTimers());
  afterEach(() => realClocks());

  it.each([
    ['at once', 99, 1],
    ['slowly', 100, 0],
  ])('is judged again if the body arrives %s', (_, takesMs, calls) => {
    let rights: Principal | null = ACCESS;
    const respond = post(() => rights);
    rights = null;
    vi.advanceTimersByTime(takesMs);
    receive(body.buffer, true);
    expect(respond).toHaveBeenCalledTimes(calls);
    expect(written).toEqual(calls === 1 ? [] : ['401']);
  });

  it('is looked up again if its rights are too old', async () => {
    let rights: Principal | undefined = ACCESS;
    const respond = post(() => rights);
    rights = undefined;
    vi.advanceTimersByTime(1_000);
    receive(body.buffer, true);
    expect(respond).not.toHaveBeenCalled();
    lookup.resolve(ACCESS);
    await lookup.promise;
    await Promise.resolve();
    expect(respond).toHaveBeenCalledTimes(1);
  });
});

it('pages of the list share the iterations of the event loop as batches do', async () => {
  let spentMs = 0;
  fakeTimers(() => spentMs);
  const answered: string[] = [];
  const startedAtMs = Number.POSITIVE_INFINITY;
  const exchange = {
    owner: 'key_a',
    over: false,
    startedAtMs,
    defer: () => {},
    whenMade: (done: () => void) => done(),
  };
  for (const page of 'abcd')
    pipeline.answerPage(exchange as unknown as Exchange, 100, false, () => {
      answered.push(page);
      spentMs += 6;
    });
  expect(answered).toEqual(['a', 'b']);
  expect(pipeline.batchesWaiting).toBe(2);
  await vi.advanceTimersToNextTimerAsync();
  expect(answered).toEqual(['a', 'b', 'c', 'd']);
  realClocks();
});

it('a page whose turn comes late is answered for a key that is still valid, and for no other', async () => {
  let spentMs = 0;
  fakeTimers(() => spentMs);
  const outcomes: string[] = [];
  const pageOf = (name: string) => {
    const fail = () => outcomes.push(`${name} rejected`);
    const headers = { apiKey: name };
    const exchange = { owner: 'key_a', over: false, startedAtMs: 0, headers, fail, defer: () => {} };
    return { ...exchange, whenMade: (done: () => void) => done() } as unknown as Exchange;
  };
  load.mockImplementation(async (key) => (key === 'revoked' ? null : ACCESS));
  for (const name of ['first', 'revoked', 'valid'])
    pipeline.answerPage(pageOf(name), 100, false, () => {
      outcomes.push(`${name} answered`);
      spentMs += 150;
    });
  expect(outcomes).toEqual(['first answered']);
  await vi.advanceTimersByTimeAsync(10);
  expect(outcomes).toEqual(['first answered', 'revoked rejected', 'valid answered']);
  realClocks();
});
