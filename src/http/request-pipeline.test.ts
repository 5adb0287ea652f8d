import type { HttpResponse } from 'uWebSockets.js';
import { beforeEach, expect, it, type Mock, vi } from 'vitest';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { Principal } from '../auth/principal.ts';
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

const response = {
  onAborted: (listener: () => void) => {
    abort = listener;
  },
  onData: (listener: typeof receive) => {
    receive = listener;
  },
} as unknown as HttpResponse;
const tick = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
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

it('pages of the list share the iterations of the event loop as batches do', async () => {
  let spentMs = 0;
  fakeTimers(() => spentMs);
  const answered: string[] = [];
  const exchange = { owner: 'key_a', over: false, defer: () => {}, whenMade: (done: () => void) => done() };
  for (const page of 'abcd')
    pipeline.answerPage(exchange as unknown as Exchange, 100, () => {
      answered.push(page);
      spentMs += 6;
    });
  expect(answered).toEqual(['a', 'b']);
  expect(pipeline.batchesWaiting).toBe(2);
  await vi.advanceTimersToNextTimerAsync();
  expect(answered).toEqual(['a', 'b', 'c', 'd']);
  realClocks();
});
