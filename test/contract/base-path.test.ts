import { beforeAll, describe, expect, it } from 'vitest';
import { type Service, startService } from '../support/service.ts';

let service: Service;

beforeAll(async () => {
  const hotels = Array.from({ length: 5 }, (_, i) => ({
    id: `h${i}`,
    channel_id: `CH-${i}`,
    registry_id: 500_000 + i,
  }));
  service = await startService({ env: { BASE_PATH: '/data/v1' }, hotels });
});

describe('a base path', () => {
  it.each([
    '/hotels',
    '/hotels/h1',
    '/hotels/channel/CH-1',
    '/hotels/registry/500001',
    '/hotels?registry_id=500001',
  ])('precedes %s, which is unknown without it', async (path) => {
    const response = await service.get(`/data/v1${path}`);
    expect(response.status).toBe(200);
    expect(response.text).toContain('"id":"h1"');
    for (const other of [
      path,
      `/data${path}`,
      `/data/v2${path}`,
      `/data/v1/data/v1${path}`,
      `/DATA/v1${path}`,
    ]) {
      const unknown = await service.get(other);
      expect([unknown.status, unknown.text]).toEqual([404, '{"error":"Not found"}']);
    }
  });

  it('precedes the paths of batches', async () => {
    const byChannel = await service.post('/data/v1/hotels/channel/batch', { channel_ids: ['CH-1'] });
    const byRegistry = await service.post('/data/v1/hotels/registry/batch', { registry_ids: [500001] });
    const byId = await service.post('/data/v1/hotels/batch', { ids: ['h1'] });
    expect([byChannel.status, byRegistry.text, byId.text]).toEqual([200, byChannel.text, byChannel.text]);
    expect((await service.post('/hotels/channel/batch', { channel_ids: ['CH-1'] })).status).toBe(404);
  });

  it('is no part of the links, which a gateway with another prefix passes on', async () => {
    for (const [path, query] of [
      ['/data/v1/hotels', 'limit=2&offset=2'],
      ['/data/v1/changes', 'limit=2'],
    ]) {
      const { headers } = await service.get(`${path}?${query}`);
      const targets = [...String(headers.link).matchAll(/<([^>]*)>/g)].map(([, target]) => target!);
      expect(targets.length).toBeGreaterThan(0);
      for (const target of targets) {
        const { pathname, search } = new URL(target, `http://gateway/hotel-data${path}?${query}`);
        expect([pathname, search]).toEqual([`/hotel-data${path}`, target]);
      }
    }
  });

  it('does not change the methods that a path allows', async () => {
    const response = await service.get('/data/v1/hotels/channel/batch', { method: 'PUT' });
    expect([response.status, response.headers.allow]).toEqual([405, 'GET, HEAD, POST']);
    expect((await service.get('/hotels/channel/batch', { method: 'PUT' })).status).toBe(404);
  });
});
