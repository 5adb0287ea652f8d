import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { insertCollection, insertKey } from '../support/rows.ts';
import { type Service, startBehindProxy } from '../support/service.ts';

let service: Service;
let proxy: Awaited<ReturnType<typeof startBehindProxy>>['proxy'];

beforeAll(async () => {
  ({ service, proxy } = await startBehindProxy({ env: { DATABASE_TIMEOUT_MS: '500' } }));
  await insertCollection(service.sql, 'alps');
});

const shaOf = (key: string) => Buffer.from(hashOf(key), 'hex');
const details = async (key: string) => (await service.get('/key', { key })).json();

describe('GET /key', () => {
  it('returns what a key without limits is and may', async () => {
    const key = await insertKey(service.sql, []);
    const response = await service.get('/key', { key });
    expect([response.status, response.text]).toEqual([
      200,
      `{"id":"test-${hashOf(key).slice(0, 12)}","name":"test","scopes":[],"collection":null,"expires_at":null,"rate_limit":null}`,
    ]);
    expect(response.headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'private, no-cache',
      vary: 'accept-encoding, x-api-key',
    });
  });

  it('returns scopes, collection, expiry and rate limit, as they change, and never the key', async () => {
    const key = await insertKey(service.sql, ['registry'], 'alps');
    expect(await details(key)).toMatchObject({
      scopes: ['registry'],
      collection: { id: 'alps', name: 'Collection alps' },
    });
    await service.sql`update api_keys set name = 'Ünïcode "x"', expires_at = '2100-01-31 12:00:00.5+01',
      rate_limit_requests = 600, rate_limit_window_s = 60, collection_id = 'gone' where key_sha256 = ${shaOf(key)}`;
    await expect
      .poll(() => details(key))
      .toMatchObject({
        name: 'Ünïcode "x"',
        scopes: ['registry'],
        collection: { id: 'gone', name: null },
        expires_at: '2100-01-31T11:00:00.500Z',
        rate_limit: { requests: 600, window_seconds: 60 },
      });
    expect((await service.get('/key', { key })).text).not.toContain(key);
    await service.sql`update api_keys set expires_at = 'infinity' where key_sha256 = ${shaOf(key)}`;
    await expect.poll(async () => (await details(key)).expires_at).toBeNull();
  });

  it('has a tag, and is 304 for it', async () => {
    const { headers } = await service.get('/key');
    expect(headers.etag).toMatch(/^"[\w-]+"$/);
    const again = await service.get('/key', { headers: { 'if-none-match': headers.etag! } });
    expect([again.status, again.text]).toEqual([304, '']);
    const other = await service.get('/key', { key: 'narrow' });
    expect(other.headers.etag).not.toBe(headers.etag);
  });

  it('answers HEAD without a body, and no other method', async () => {
    const head = await service.get('/key', { method: 'HEAD' });
    const length = String((await service.get('/key')).body.length);
    expect([head.status, head.text, head.headers['content-length']]).toEqual([200, '', length]);
    const posted = await service.post('/key', {});
    expect([posted.status, posted.headers.allow]).toEqual([405, 'GET, HEAD']);
  });

  it('requires a valid key', async () => {
    for (const key of ['none', 'hk_nonsense'])
      expect((await service.get('/key', { key })).json()).toEqual({ error: 'Unauthorized' });
    const key = await insertKey(service.sql, []);
    expect((await service.get('/key', { key })).status).toBe(200);
    await service.sql`delete from api_keys where key_sha256 = ${shaOf(key)}`;
    await expect.poll(async () => (await service.get('/key', { key })).status).toBe(401);
  });

  it('counts against the rate limit of the key', async () => {
    const key = await insertKey(service.sql, []);
    await service.sql`update api_keys set rate_limit_requests = 3, rate_limit_window_s = 3600
      where key_sha256 = ${shaOf(key)}`;
    const answers = [];
    for (let i = 0; i < 4; i++) answers.push(await service.get('/key', { key }));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(answers[1]!.headers.ratelimit).toContain('r=1;');
  });

  it('is 503 while PostgreSQL is unavailable', async () => {
    expect((await service.get('/key')).status).toBe(200);
    await proxy.reject();
    await expect.poll(async () => (await service.get('/key')).status).toBe(503);
    await proxy.heal();
    await expect.poll(async () => (await service.get('/key')).status).toBe(200);
  });
});
