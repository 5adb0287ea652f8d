import type { HttpRequest, HttpResponse } from 'uWebSockets.js';
import { pino } from 'pino';
import { beforeEach, expect, it, vi } from 'vitest';
import type { Access } from '../auth/access.ts';
import type { Keyring } from '../auth/api-key-cache.ts';
import { AccessLog } from '../observability/access-log.ts';
import { Metrics } from '../observability/metrics.ts';
import type { Limiter } from '../rate-limit/limiter.ts';
import { Gate } from './request-pipeline.ts';

const ACCESS: Access = {
  keyId: 'key_a',
  view: 'full',
  expiresAtMs: Number.POSITIVE_INFINITY,
  limit: null,
  collection: null,
};

let gate: Gate;
/** the look-up of the one key */
let lookup: PromiseWithResolvers<Access | null>;
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
const request = {
  getHeader: () => '',
  forEach: (hear: (name: string, value: string) => void) => hear('content-length', '24'),
} as unknown as HttpRequest;
const turn = () => new Promise((resolve) => setImmediate(resolve));

beforeEach(() => {
  lookup = Promise.withResolvers();
  const keyring = { find: () => undefined, load: () => lookup.promise } as unknown as Keyring;
  const log = new AccessLog(pino({ level: 'silent' }), { sample: 0, slowMs: 250, onSuppressed: () => {} });
  gate = new Gate(keyring, {} as Limiter, new Metrics(), log, true);
});

it('nothing is read for a client that left while its key was looked up', async () => {
  const answer = vi.fn<() => void>();
  const rule = { route: 'hotel', read: () => 'h1', needsRegistry: () => false, answer } as const;
  gate.get(rule, 'GET')(response, request);
  abort();
  lookup.resolve(ACCESS);
  await turn();
  expect(answer).not.toHaveBeenCalled();
  expect([gate.unfinished, gate.answered]).toEqual([0, 1]);
});

it('nothing is read for a batch whose client left while its key was looked up', async () => {
  const answer = vi.fn<() => void>();
  gate.post({ route: 'batch_by_channel', needsRegistry: false, answer })(response, request);
  receive(new TextEncoder().encode('{"channel_ids":["a"]}').buffer, true);
  abort();
  lookup.resolve(ACCESS);
  await turn();
  expect(answer).not.toHaveBeenCalled();
});

it('a key that is good is answered when it is known to be', async () => {
  const answer = vi.fn<() => void>();
  const rule = { route: 'hotel', read: () => 'h1', needsRegistry: () => false, answer } as const;
  gate.get(rule, 'GET')(response, request);
  lookup.resolve(ACCESS);
  await turn();
  expect(answer).toHaveBeenCalledTimes(1);
});
