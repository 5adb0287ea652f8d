import { beforeAll, describe, expect, it } from 'vitest';
import type { HttpResponse } from '../support/client.ts';
import { linesOf } from '../support/log-lines.ts';
import { type Service, startService } from '../support/service.ts';

let service: Service;

beforeAll(async () => {
  const hotels = Array.from({ length: 1_000 }, (_, i) => ({
    id: `h${String(i).padStart(3, '0')}`,
    channel_id: `CH-${i}`,
    registry_id: 500_000 + i,
  }));
  service = await startService({ redis: false, workers: 2, hotels });
});

/** Sends requests over enough connections to reach every worker; all responses must be equal. */
async function everywhere(send: () => Promise<HttpResponse>): Promise<HttpResponse> {
  const responses = await Promise.all(Array.from({ length: 12 }, send));
  const [first] = responses;
  for (const { status, text } of responses) expect([status, text]).toEqual([first!.status, first!.text]);
  return first!;
}

/** Sends a batch until it is admitted: on a busy machine the service correctly rejects some. */
async function admitted(path: string, body: object): Promise<HttpResponse> {
  let response: HttpResponse | undefined;
  const status = async () => {
    response = await service.post(path, body);
    return response.status;
  };
  await expect.poll(status).not.toBe(503);
  return response!;
}

describe('without Redis', () => {
  it('the service logs one warning', () => {
    const warnings = linesOf(service.logs().filter((line) => /redis/i.test(line))).filter(
      ({ level }) => level === 'warn',
    );
    expect(warnings).toHaveLength(1);
  });

  it.each([
    ['GET /hotels', '/hotels?limit=1&offset=7', '[', ']'],
    ['GET /hotels with registry_id', '/hotels?registry_id=500007', '[', ']'],
    ['GET /hotels/{id}', '/hotels/h007', '', ''],
    ['GET /hotels/channel/{channelId}', '/hotels/channel/CH-7', '', ''],
    ['GET /hotels/registry/{registryId}', '/hotels/registry/500007', '', ''],
  ])('%s is answered, at the first and at later requests', async (_, path, start, end) => {
    for (let round = 0; round < 3; round++) {
      const { status, text } = await everywhere(() => service.get(path));
      expect(status).toBe(200);
      expect(text.startsWith(`${start}{"id":"h007",`)).toBe(true);
      expect(text.endsWith(`"channel_id":"CH-7","registry_id":500007}${end}`)).toBe(true);
    }
  });

  it('batches of 1000 are answered in the requested order', async () => {
    const places = Array.from({ length: 1_000 }, (_, i) => (i * 7 + 3) % 1_000);
    const expected = places.map((place) => `h${String(place).padStart(3, '0')}`);
    const channels = { channel_ids: places.map((place) => `CH-${place}`) };
    const registries = { registry_ids: places.map((place) => 500_000 + place) };
    for (let round = 0; round < 2; round++) {
      const byChannel = await everywhere(() => admitted('/hotels/channel/batch', channels));
      const byRegistry = await everywhere(() => admitted('/hotels/registry/batch', registries));
      expect(byChannel.json().map(({ id }: { id: string }) => id)).toEqual(expected);
      expect(byRegistry.text).toBe(byChannel.text);
    }
  });

  it('a key without the scope receives no registry id and may not search by one', async () => {
    const key = 'narrow';
    for (let round = 0; round < 2; round++) {
      const hotel = (await everywhere(() => service.get('/hotels/h001', { key }))).json();
      expect(hotel).toMatchObject({ id: 'h001', channel_id: 'CH-1', registry_id: null });
      const channels = { channel_ids: ['CH-1', 'nobody'] };
      const batch = await everywhere(() => service.post('/hotels/channel/batch', channels, { key }));
      expect(batch.json()).toEqual([hotel]);
      const registries = { registry_ids: [500001] };
      for (const send of [
        () => service.get('/hotels/registry/500001', { key }),
        () => service.get('/hotels?registry_id=500001', { key }),
        () => service.post('/hotels/registry/batch', registries, { key }),
      ]) {
        expect((await everywhere(send)).status).toBe(403);
      }
    }
  });

  it.each([
    ['/hotels/h001', 401, 'Unauthorized', 'none'],
    ['/hotels/registry/abc', 400, 'registry_id must be an integer'],
    ['/hotels/nowhere', 404, 'Hotel not found'],
    ['/hotels/channel/nowhere', 404, 'Hotel not found'],
    ['/hotels/registry/1', 404, 'Hotel not found'],
    ['/nowhere', 404, 'Not found'],
  ])('%s is rejected with %s %s', async (path, status, sentence, key = 'full') => {
    for (let round = 0; round < 2; round++) {
      const response = await everywhere(() => service.get(path, { key }));
      expect([response.status, response.json()]).toEqual([status, { error: sentence }]);
    }
  });

  it('a change of a hotel is effective within a second in every worker', async () => {
    await everywhere(() => service.get('/hotels/channel/CH-2'));
    await service.sql`update hotels set name = 'Changed', channel_id = 'CH-changed' where id = 'h002'`;
    const seen = async () => {
      const requested = ['/hotels/h002', '/hotels/channel/CH-2', '/hotels/channel/CH-changed'];
      const responses = await Promise.all(
        requested.flatMap((path) => Array.from({ length: 12 }, () => service.get(path))),
      );
      return [
        ...new Set(
          responses.map((response) => (response.status === 200 ? response.json().name : response.status)),
        ),
      ];
    };
    await expect.poll(seen).toEqual(['Changed', 404]);
  });

  it('a revoked key is rejected within a second by every worker', async () => {
    const statuses = async () => {
      const requested = Array.from({ length: 12 }, () => service.get('/hotels/h003', { key: 'narrow' }));
      return [...new Set((await Promise.all(requested)).map(({ status }) => status))];
    };
    expect(await statuses()).toEqual([200]);
    await service.sql`update api_keys set revoked_at = now() where scopes = '{}'`;
    await expect.poll(statuses).toEqual([401]);
  });

  it('the probes and the metrics respond', async () => {
    expect((await service.admin('/livez')).status).toBe(200);
    expect((await service.admin('/readyz')).status).toBe(200);
    expect(await service.metrics()).toContain('# TYPE ');
  });
});
