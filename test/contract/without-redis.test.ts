import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { linesOf } from '../support/log-lines.ts';
import { type Service, startService } from '../support/service.ts';

let service: Service;
let allWorkers: AllWorkers;

beforeAll(async () => {
  const hotels = Array.from({ length: 100 }, (_, i) => ({
    id: `h${i}`,
    channel_id: `CH-${i}`,
    registry_id: 500_000 + i,
  }));
  service = await startService({ redis: false, workers: 2, hotels });
  allWorkers = await AllWorkers.of(service);
});

describe('without Redis', () => {
  it('the service logs one warning, and is ready', async () => {
    const lines = linesOf(service.logs().filter((line) => /redis/i.test(line)));
    expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(1);
    expect((await service.admin('/readyz')).status).toBe(200);
  });

  it.each<[path: string, body?: object]>([
    ['/hotels?limit=1&offset=67'],
    ['/hotels?registry_id=500007'],
    ['/hotels/h7'],
    ['/hotels/channel/CH-7'],
    ['/hotels/registry/500007'],
    ['/hotels/channel/batch', { channel_ids: ['CH-7', 'nobody'] }],
    ['/hotels/registry/batch', { registry_ids: [500007, 1] }],
  ])('every worker answers %s %j, at the first and at later requests', async (path, body) => {
    for (let round = 0; round < 3; round++)
      for (const response of await (body ? allWorkers.post(path, body) : allWorkers.get(path))) {
        expect(response.status).toBe(200);
        expect(response.text).toMatch(/^\[?\{"id":"h7",.*"channel_id":"CH-7","registry_id":500007\}\]?$/);
      }
  });

  it('absences are answered, and a change of a hotel and of a key is effective in every worker', async () => {
    await allWorkers.until('/hotels/channel/CH-changed', status(404));
    await service.sql`update hotels set name = 'Changed', channel_id = 'CH-changed' where id = 'h2'`;
    await allWorkers.until('/hotels/channel/CH-changed', named('Changed'));
    await allWorkers.until('/hotels/h2', named('Changed'));
    await allWorkers.until('/hotels/channel/CH-2', status(404));
    await allWorkers.until('/hotels/h3', status(200), 'narrow');
    const hash = Buffer.from(hashOf(service.narrowKey), 'hex');
    await service.sql`update api_keys set revoked_at = now() where key_sha256 = ${hash}`;
    await allWorkers.until('/hotels/h3', status(401), 'narrow');
  });
});
