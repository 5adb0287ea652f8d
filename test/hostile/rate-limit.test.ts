import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pace } from '../../bench/load/pace.ts';
import { createKey, limitKey } from '../../src/cli/keys.ts';
import { Client, type HttpResponse } from '../support/client.ts';
import { unlessHeldUp } from '../support/hold-ups.ts';
import { addResult, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';

const SECONDS = shortOrLong(3, 10);
const LIMIT = { requests: 200, windowMs: 1_000 };

let service: Service;
const clients: Client[] = [];

beforeAll(async () => {
  service = await startService({
    workers: 2,
    hotels: [{ id: 'h1', channel_id: 'CH-1', registry_id: 500001 }],
  });
});
afterAll(() => {
  for (const client of clients) client.close();
});

const made = (rateLimit: typeof LIMIT | null) =>
  createKey(service.sql, { name: 'limited', scopes: [], expiresAt: null, rateLimit });

/** Runs the check with a new key. A worker that waits 100 ms for its primary counts by itself: then it is repeated. */
const onSomeKey = (rateLimit: typeof LIMIT, check: (key: string) => Promise<void>) =>
  unlessHeldUp([service], 0.05, async () => check((await made(rateLimit)).key));

/**
 * Sends `perSecond` requests a second over this many connections. Returns the responses by status, the number of 200 in
 * the windows of these seconds, and its bounds. On a busy machine one connection may not reach the rate.
 */
async function load(key: string, perSecond: number, connections: number) {
  const client = new Client(service.port, { full: key, narrow: '' }, connections);
  clients.push(client);
  const statuses: Record<string, number> = {};
  let admitted = 0;
  let firstMs = Infinity;
  /** by window */
  const answered: number[] = new Array(1 + SECONDS).fill(0);
  const send = async () => {
    const { status } = await client.request('/hotels/h1', {});
    statuses[status] = (statuses[status] ?? 0) + 1;
    const window = Math.floor((performance.now() - firstMs) / LIMIT.windowMs);
    if (window < 1 || window > SECONDS) return;
    answered[window]!++;
    if (status === 200) admitted++;
  };
  // the key's first window begins with its first request
  firstMs = performance.now();
  await send();
  // it may begin as late as the response; the seconds then see the beginnings of one window more
  const windows = SECONDS + (performance.now() - firstMs > 0.3 * LIMIT.windowMs ? 1 : 0);
  await sleep(LIMIT.windowMs);
  for (const status of Object.keys(statuses)) delete statuses[status];
  const requesting: Promise<void>[] = [];
  const untilMs = performance.now() + SECONDS * 1_000;
  await pace(
    perSecond,
    () => performance.now() > untilMs,
    () => requesting.push(send()),
  );
  await Promise.all(requesting);
  const admissible = answered.reduce((sum, count) => sum + Math.min(count, LIMIT.requests), 0);
  return {
    statuses,
    admitted,
    admissible,
    most: 1.1 * LIMIT.requests * windows,
    requested: requesting.length,
  };
}

// none of them takes much of a processor: they share their seconds
describe.concurrent('a limit of 200 requests a second over two workers', () => {
  it.each([
    ['sixteen connections', 16],
    ['one connection', 1],
    ['three connections', 3],
  ])('admits within a tenth of it over %s', async (_, connections) => {
    await onSomeKey(LIMIT, async (key) => {
      const { statuses, admitted, admissible, most } = await load(key, 500, connections);
      expect(Object.keys(statuses).sort()).toEqual(['200', '429']);
      expect(admitted).toBeGreaterThan(0.9 * admissible);
      expect(admitted).toBeLessThan(most);
    });
  });

  it('rejects no request below it', async () => {
    await onSomeKey(LIMIT, async (key) => {
      // after a stall of this process, a window gets more than its share
      const { statuses, requested } = await load(key, 100, 8);
      expect(statuses).toEqual({ 200: requested });
    });
  });

  it('is measured for the table', async (context) => {
    await onSomeKey(LIMIT, async (key) => {
      const { admitted, admissible, most } = await load(key, 1_000, 8);
      addResult(context, 'hostile clients', `a key limited to 200/s sends 1,000/s, ${SECONDS} s`, {
        'admitted/s': (admitted / SECONDS).toFixed(1),
      });
      expect(admitted).toBeGreaterThan(0.9 * admissible);
      expect(admitted).toBeLessThan(most);
    });
  });
});

describe('the headers of a limited key', () => {
  const POLICY = /^"default";q=(\d+);w=(\d+)$/;
  const STATE = /^"default";r=(\d+);t=(\d+)$/;
  const limitsOf = ({ headers }: HttpResponse) => ({
    policy: POLICY.exec(String(headers['ratelimit-policy']))?.slice(1).map(Number),
    state: STATE.exec(String(headers.ratelimit))?.slice(1).map(Number),
  });

  it('state the policy and the remaining requests in every response', async () => {
    await onSomeKey({ requests: 50, windowMs: 60_000 }, async (key) => {
      let left = 51;
      for (const path of [
        '/hotels/h1',
        '/hotels/nowhere',
        '/hotels/registry/1',
        '/hotels?limit=0',
        '/hotels',
      ]) {
        const { policy, state } = limitsOf(await service.get(path, { key }));
        expect(policy).toEqual([50, 60]);
        expect(state![0]).toBeLessThan(left);
        expect(state![1]).toBeLessThanOrEqual(60);
        left = state![0]!;
      }
      const batch = await service.post('/hotels/channel/batch', { channel_ids: ['CH-1'] }, { key });
      expect([batch.status, limitsOf(batch).policy]).toEqual([200, [50, 60]]);
      const head = await service.get('/hotels/h1', { key, method: 'HEAD' });
      expect([head.status, limitsOf(head).policy]).toEqual([200, [50, 60]]);
    });
  });

  it('never grows within a window on any connection', async () => {
    await onSomeKey({ requests: 300, windowMs: 60_000 }, async (key) => {
      const left: number[][] = Array.from({ length: 8 }, () => []);
      let t = 60;
      // a connection each
      const clients = left.map(() => new Client(service.port, { full: key, narrow: key }));
      for (let i = 0; i < 320; i++) {
        const at = (i * 3) % 8;
        const { state } = limitsOf(await clients[at]!.request('/hotels/h1', {}));
        // a window may have ended meanwhile; workers may differ by a second
        if (state![1]! > t + 1) for (const each of left) each.length = 0;
        t = state![1]!;
        left[at]!.push(state![0]!);
      }
      for (const client of clients) client.close();
      // a busy worker may not have read yet what the primary sent it first
      for (const each of left) expect(each).toEqual(each.toSorted((a, b) => b - a));
      expect(new Set(left.flat()).size).toBeGreaterThan(20);
    });
  });

  it('state the time to retry in a 429 of the common error form', async () => {
    await onSomeKey({ requests: 3, windowMs: 60_000 }, async (key) => {
      for (let i = 0; i < 3; i++) expect((await service.get('/hotels/h1', { key })).status).toBe(200);
      const requested = [
        service.get('/hotels/h1', { key }),
        service.get('/hotels/registry/1', { key }),
        service.post('/hotels/channel/batch', { channel_ids: ['CH-1'] }, { key }),
        service.post('/hotels/channel/batch', 'x'.repeat(300_000), { key }),
      ];
      for (const response of await Promise.all(requested)) {
        expect([response.status, response.text, response.headers['content-type']]).toEqual([
          429,
          '{"error":"Too many requests"}',
          'application/json',
        ]);
        const { policy, state } = limitsOf(response);
        expect([policy, state![0]]).toEqual([[3, 60], 0]);
        expect(response.headers['retry-after']).toBe(String(state![1]));
        expect(state![1]).toBeGreaterThan(50);
      }
      // unknown paths and wrong methods need no key, so they do not count
      expect((await service.get('/nowhere', { key })).status).toBe(404);
      const rejected = await service.metric('hotel_api_requests_rejected_total', { reason: 'rate_limit' });
      expect(rejected).toBeGreaterThan(0);
    });
  });

  it('are absent without a limit, and for unknown keys', async () => {
    const { key } = await made(null);
    for (const response of [
      await service.get('/hotels/h1', { key }),
      await service.get('/hotels/h1', { key: 'none' }),
    ])
      expect(Object.keys(response.headers).filter((name) => name.startsWith('ratelimit'))).toEqual([]);
  });
});

it('a limit that is set, changed or removed is effective in every worker within a second', async () => {
  const { id, key } = await made(null);
  const policies = async () => {
    const responses = await Promise.all(Array.from({ length: 12 }, () => service.get('/hotels/h1', { key })));
    return new Set(responses.map(({ headers }) => String(headers['ratelimit-policy'])));
  };
  expect(await policies()).toEqual(new Set(['undefined']));
  for (const [limit, policy] of [
    [{ requests: 5_000, windowMs: 1_000 }, '"default";q=5000;w=1'],
    [{ requests: 9_000, windowMs: 60_000 }, '"default";q=9000;w=60'],
    [null, 'undefined'],
  ] as const) {
    await limitKey(service.sql, id, limit);
    await expect.poll(policies).toEqual(new Set([policy]));
  }
});
