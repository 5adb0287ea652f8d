import { describe, expect, it } from 'vitest';
import { makeKey } from '../../src/auth/key.ts';
import type { RequestOptions } from '../support/client.ts';
import { samplesOf } from '../support/metrics.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';

await needs('redis');

const REQUESTS = 'hotel_api_request_duration_seconds';
const [CHANNEL, REGISTRY] = ['/hotels/channel/batch', '/hotels/registry/batch'];

/** Returns how many requests were counted, by `http_route method status`. */
async function requestsOf(service: Service): Promise<Record<string, number>> {
  const counted = await service.samples(`${REQUESTS}_count`);
  const entries = counted.map(({ labels: { http_route, method, status }, value }) => {
    return [`${http_route} ${method} ${status}`, value] as const;
  });
  return Object.fromEntries(entries);
}

const totalOf = (service: Service) => service.metric(`${REQUESTS}_count`);

/** Returns the increases of these numbers, without zeros. */
function rise(before: Record<string, number>, after: Record<string, number>): Record<string, number> {
  const risen = Object.entries(after).map(([name, value]) => [name, value - (before[name] ?? 0)] as const);
  return Object.fromEntries(risen.filter(([, value]) => value !== 0));
}

const HOTELS = Array.from({ length: 30 }, (_, i) => ({
  id: `hotel-secret-${i}`,
  channel_id: `CHANNEL-SECRET-${i}`,
  registry_id: 77_000_000 + i,
}));

const service = await startService({ workers: 2, hotels: HOTELS, env: { REDIS_TIMEOUT_MS: '10000' } });

describe('the admin port', () => {
  it.each([
    ['/livez', 'alive\n', 'text/plain; charset=utf-8'],
    ['/readyz', 'ready\n', 'text/plain; charset=utf-8'],
    ['/readyz?verbose', 'ready\n', 'text/plain; charset=utf-8'],
    ['/metrics', '# TYPE hotel_api_', 'text/plain; version=0.0.4; charset=utf-8'],
  ])('answers %s, and HEAD as GET without the body', async (path, text, type) => {
    const get = await service.admin(path);
    expect([get.status, get.headers['content-type']]).toEqual([200, type]);
    expect(get.text).toContain(text);
    const head = await service.admin(path, 'HEAD');
    expect([head.status, head.headers['content-type']]).toEqual([200, type]);
    expect(Number(head.headers['content-length'])).toBeGreaterThan(0);
    expect(head.text).toBe('');
  });

  it('has no other paths and methods', async () => {
    for (const path of ['/', '/hotels', '/livez/', '/metrics/json', '/openapi.json', '//livez', '/%6civez'])
      expect((await service.admin(path)).status).toBe(404);
    for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
      const response = await service.admin('/livez', method);
      expect([response.status, response.headers.allow]).toEqual([405, 'GET, HEAD']);
    }
  });

  it('returns an exposition in which each sample belongs to a described metric', async () => {
    const text = await service.metrics();
    const described = new Map(
      [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name!, type!]),
    );
    for (const name of described.keys()) expect(text).toContain(`# HELP ${name} `);
    // its samples would wake an idle process
    expect([...described.keys()].filter((name) => name.startsWith('nodejs_eventloop_'))).toEqual([]);
    for (const { name, value } of samplesOf(text)) {
      expect(described.has(name) || described.has(name.replace(/_(bucket|sum|count)$/, ''))).toBe(true);
      expect([name, Number.isFinite(value)]).toEqual([name, true]);
    }
    for (const [name, type] of described) if (type === 'counter') expect(name).toMatch(/_total$/);
  });
});

describe('requests', () => {
  it('are counted by route, method and status over all workers, each once', async () => {
    const before = await requestsOf(service);
    const batch = (name: string, ids: unknown[]) => JSON.stringify({ [name]: ids });
    const { etag } = (await service.get('/hotels/hotel-secret-1')).headers;
    const requested: [count: number, what: string, path: string, options: RequestOptions, body?: string][] = [
      [7, '/hotels GET 200', '/hotels?limit=3', {}],
      [3, '/hotels GET 403', '/hotels?registry_id=77000001', { key: 'narrow' }],
      [10, '/hotels/{id} GET 200', '/hotels/hotel-secret-1', {}],
      [4, '/hotels/{id} HEAD 200', '/hotels/hotel-secret-1', { method: 'HEAD' }],
      [5, '/hotels/{id} GET 304', '/hotels/hotel-secret-1', { headers: { 'if-none-match': etag! } }],
      [6, '/hotels/{id} GET 404', '/hotels/nowhere-secret', {}],
      [3, '/hotels/{id} GET 401', '/hotels/hotel-secret-2', { key: 'none' }],
      [4, '/hotels/registry/{registry_id} GET 200', '/hotels/registry/77000004', {}],
      [2, '/hotels/registry/{registry_id} GET 400', '/hotels/registry/secret', {}],
      [9, `${CHANNEL} POST 200`, CHANNEL, {}, batch('channel_ids', ['CHANNEL-SECRET-5'])],
      [2, `${CHANNEL} POST 413`, CHANNEL, {}, ' '.repeat(1_048_577)],
      [5, `${REGISTRY} POST 200`, REGISTRY, {}, batch('registry_ids', [77_000_006])],
      [3, 'other GET 404', '/nowhere-secret', {}],
      [3, 'other other 405', '/hotels', { method: 'PUT' }],
    ];
    await Promise.all(
      requested.flatMap(([count, what, path, options, body]) =>
        Array.from({ length: count }, async () => {
          const response =
            body === undefined ? await service.get(path, options) : await service.post(path, body, options);
          expect(`${what.split(' ').slice(0, 2).join(' ')} ${response.status}`).toBe(what);
        }),
      ),
    );
    const expected = Object.fromEntries(requested.map(([count, what]) => [what, count]));
    expected['/hotels/{id} GET 200']! += 1;
    await expect.poll(async () => rise(before, await requestsOf(service))).toEqual(expected);
  });

  it('of a hundred unknown paths and methods add only a few series, and leave no id, key or address in any label', async () => {
    const own = async () => {
      const samples = samplesOf(await service.metrics());
      return samples.filter(({ name }) => name.startsWith('hotel_api_'));
    };
    const before = (await own()).length;
    const total = await totalOf(service);
    const methods = ['PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND', 'BREW'];
    // hostile ids, parameters and request ids, with a valid key
    const ids = ['{__name__="up"}', 'a"b\\', '\n', 'x'.repeat(2_000), 'secret-é', '../metrics'];
    for (const id of ids) {
      await service.get(`/hotels/${encodeURIComponent(id)}`, { headers: { 'x-request-id': 'secret-trace' } });
      await service.post('/hotels/channel/batch', { channel_ids: [id] });
    }
    const odd = Array.from({ length: 100 }, (_, i) =>
      service.get(`/secret-${i}/%00/${i}?a=${i}`, { method: methods[i % 7]! }),
    );
    for (const response of await Promise.all(odd)) expect(response.status).toBe(404);
    // one after the other, because few unknown keys are looked up at once
    for (let i = 0; i < 20; i++)
      expect((await service.get('/hotels/x', { key: makeKey() })).status).toBe(401);
    await expect.poll(() => totalOf(service)).toBe(total + 132);
    const samples = await own();
    // one of `other`, one of 401 and one of 404, each with its buckets, sum and count
    expect(samples.length - before).toBeLessThanOrEqual(3 * 18);
    const text = JSON.stringify(samples.map(({ name, labels }) => [name, labels]));
    for (const trace of ['secret', 'SECRET', '7700000', 'nowhere', service.fullKey, service.narrowKey, 'hk_'])
      expect(text).not.toContain(trace);
    expect(text).not.toMatch(/[0-9a-f]{32}/);
  });

  it('of exited workers stay counted at all times', async () => {
    const total = await totalOf(service);
    const before = await service.workerPids();
    for (const pid of before) process.kill(pid, 'SIGKILL');
    const isReplaced = async () => {
      const pids = await service.workerPids();
      return pids.length === 2 && pids.every((pid) => !before.includes(pid));
    };
    while (!(await isReplaced())) expect(await totalOf(service)).toBe(total);
    await service.ready();
    expect(await service.metric('hotel_api_worker_restarts_total')).toBe(2);
    await service.get('/hotels/hotel-secret-1');
    await expect.poll(() => totalOf(service)).toBe(total + 1);
  });
});
