import type { HttpResponse } from 'uWebSockets.js';
import { beforeEach, describe, expect, it, type Mock, vi } from 'vitest';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { Principal } from '../auth/principal.ts';
import { UsageCounter } from '../auth/usage.ts';
import { fakeTimers, showMonotonic } from '../lib/clock.fixture.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Exchange } from './exchange.ts';
import { requestWith } from './request.fixture.ts';
import { pipelineFor } from './request-pipeline.fixture.ts';
import { StaticPage } from './static-page.ts';

const ACCESS: Principal = {
  keyId: 'key_a',
  view: 'full',
  expiresAtMs: null,
  limit: null,
  collection: null,
};
const BODY = new TextEncoder().encode('{"channel_ids":["a"]}').buffer;

/** rights of the only key, as they are cached */
let found: Principal | null | undefined;
/** lookup of the only key */
let lookup: PromiseWithResolvers<Principal | null>;
let load: Mock<ApiKeyCache['load']>;
let abort: () => void;
let receive: (chunk: ArrayBuffer, isLast: boolean) => void;
/** statuses of the responses */
let written: string[];
const read = vi.fn<() => string>();
const respond = vi.fn<() => void>();

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
  vi.clearAllMocks();
  written = [];
  found = undefined;
  lookup = Promise.withResolvers();
  load = vi.fn<ApiKeyCache['load']>(() => lookup.promise);
});

const pipeline = () => pipelineFor({ find: () => found, load } as unknown as ApiKeyCache);

/** Sends a request without its body. */
function send(method: 'GET' | 'HEAD' | 'POST', framing: [string, string] = ['content-length', '21']) {
  const of = pipeline();
  if (method === 'POST')
    of.post({ route: 'batch_by_channel', needsRegistry: false, respond })(
      response,
      requestWith(['host', 'localhost'], framing),
    );
  else of.get({ route: 'hotel', read, respond }, method)(response, requestWith(['host', 'a']));
  return of;
}

it.each(['GET', 'POST'] as const)(
  'nothing is read for a client that disconnected during the lookup of its key: %s',
  async (method) => {
    const of = send(method);
    if (method === 'POST') receive(BODY.slice(), true);
    expect(load).toHaveBeenCalledTimes(1);
    abort();
    lookup.resolve(ACCESS);
    await tick();
    expect(respond).not.toHaveBeenCalled();
    expect([of.unfinished, of.finishedCount]).toEqual([0, 1]);
  },
);

it.each([
  ['within a response, counts it', true, 200, 3],
  ['before a response, counts none', false, 0, 0],
])('a client that disconnects %s', (_, sending, status, hotels) => {
  const count = vi.spyOn(UsageCounter.prototype, 'count');
  pipeline().finished({ principal: ACCESS, sending, hotels: 3 } as Exchange, 0, 1, 0);
  expect(count.mock.calls).toEqual([['key_a', status, hotels, 0]]);
});

describe('of a request without a valid key nothing is parsed', () => {
  it.each(['GET', 'HEAD'] as const)('%s: neither its path nor its query', (method) => {
    found = null;
    send(method);
    expect(written).toEqual(['401']);
    for (const parse of [read, respond]) expect(parse).not.toHaveBeenCalled();
  });

  it.each<[string, Principal | null | undefined, [string, string]]>([
    ['of a length', null, ['content-length', '21']],
    ['in chunks', null, ['transfer-encoding', 'chunked']],
    ['that arrives while the key is looked up', undefined, ['content-length', '21']],
  ])('POST: no body %s', async (_, cached, framing) => {
    found = cached;
    send('POST', framing);
    receive(BODY.slice(), true);
    lookup.resolve(null);
    await tick();
    expect(written).toEqual(['401']);
    expect(respond).not.toHaveBeenCalled();
  });
});

describe('the key of a body that arrives', () => {
  beforeEach(() => {
    fakeTimers();
    found = ACCESS;
    send('POST');
  });

  it.each([
    ['slowly, is judged again: it may be revoked', 100, 0],
    ['at once, is not', 99, 1],
  ])('%s', (_, takesMs, calls) => {
    found = null;
    vi.advanceTimersByTime(takesMs);
    receive(BODY.slice(), true);
    expect(respond).toHaveBeenCalledTimes(calls);
    expect(written).toEqual(calls === 1 ? [] : ['401']);
  });

  it('slowly, is looked up again if its rights are too old', async () => {
    found = undefined;
    vi.advanceTimersByTime(1_000);
    receive(BODY.slice(), true);
    expect(respond).not.toHaveBeenCalled();
    lookup.resolve(ACCESS);
    await lookup.promise;
    await Promise.resolve();
    expect(respond).toHaveBeenCalledTimes(1);
  });
});

it('a page whose turn comes late is answered for a key that is still valid, and for no other', async () => {
  let spentMs = 0;
  fakeTimers(() => spentMs);
  const startedAtMs = monotonicMs();
  const outcomes: string[] = [];
  const pageOf = (name: string) => {
    const fail = () => outcomes.push(`${name} rejected`);
    const headers = { apiKey: name };
    const exchange = { owner: 'key_a', over: false, startedAtMs, headers, fail, defer: () => {} };
    return { ...exchange, whenMade: (done: () => void) => done() } as unknown as Exchange;
  };
  load.mockImplementation(async (key) => (key === 'revoked' ? null : ACCESS));
  const of = pipeline();
  for (const name of ['first', 'revoked', 'valid'])
    of.answerPage(pageOf(name), 100, () => {
      outcomes.push(`${name} answered`);
      spentMs += 150;
    });
  expect(outcomes).toEqual(['first answered']);
  await vi.advanceTimersByTimeAsync(10);
  expect(outcomes).toEqual(['first answered', 'revoked rejected', 'valid answered']);
});

it.each([
  ['is sent to the same key', null, 10_000, ACCESS, []],
  ['is not sent to a revoked key', null, 101, null, ['401']],
  ['is not sent to a key that sees other hotels', null, 101, { ...ACCESS, view: 'narrow' }, ['503']],
  ['is sent to a key of a collection within 600 ms', 'c', 600, { ...ACCESS, collection: 'c' }, []],
  ['is not sent to it later', 'c', 601, { ...ACCESS, collection: 'c' }, ['503']],
] as const)('a response that was compressed %s', async (_, collection, tookMs, now, statuses) => {
  fakeTimers();
  const sent: string[] = [];
  const startedAtMs = monotonicMs();
  const exchange = { over: false, startedAtMs, headers: { apiKey: 'a' }, principal: undefined } as never;
  Object.assign(exchange, { fail: ({ status }: { status: number }) => sent.push(String(status)) });
  found = now;
  vi.advanceTimersByTime(tookMs);
  const of = pipeline();
  const sending = of.access.mayStillSend(exchange, { ...ACCESS, collection }, startedAtMs);
  const may = await sending.catch((error) => of.failed(exchange, error));
  expect([may === true, sent]).toEqual([statuses.length === 0, statuses]);
});

it('large pages for clients without a key are written in several iterations, and are not copied', async () => {
  let monotonic = 0;
  showMonotonic(() => monotonic);
  const body = Buffer.alloc(1_000_000);
  let sent = 0;
  const take = (part: Uint8Array) => {
    expect(part.buffer).toBe(body.buffer);
    sent++;
    monotonic += 4;
    return [true, true];
  };
  const client = { ...response, writeStatus: () => client, getWriteOffset: () => 0, tryEnd: take } as never;
  const page = pipeline().page(new StaticPage('text/javascript', '', () => body), 'GET');
  for (let i = 0; i < 20; i++) page(client, requestWith(['host', 'a']));
  const byIteration: number[] = [];
  for (let before = 0; sent < 20; before = sent) {
    await tick();
    byIteration.push(sent - before);
  }
  expect(Math.max(...byIteration)).toBeLessThanOrEqual(4);
});
