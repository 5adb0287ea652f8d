import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { needs } from '../support/needs.ts';
import { childrenOf } from '../support/processes.ts';
import { type Service, startService } from '../support/service.ts';
import { render } from './kustomize.ts';

await needs('kubectl');

const MIB = 1024 ** 2;
/** About 95 MB: more than the local cache of the overlay dev holds. */
const HOTELS = 80_000;
const BATCH = 1_000;
const AT_ONCE = 8;

it('an instance with a full local cache uses less memory than dev requests', async () => {
  const manifests = await render('dev');
  const { data } = manifests.find(
    ({ kind, metadata }) => kind === 'ConfigMap' && /^hotel-api-/.test(metadata.name),
  )!;
  const deployment = manifests.find(
    ({ kind, metadata }) => kind === 'Deployment' && metadata.name === 'hotel-api',
  )!;
  const { requests } = deployment.spec.template.spec.containers[0].resources;
  const service = await startService({
    workers: Number(data.WORKERS),
    env: { L1_MAX_BYTES: data.L1_MAX_BYTES, DATABASE_TIMEOUT_MS: '5000', REDIS_TIMEOUT_MS: '1000' },
  });
  await service.sql`
    insert into hotels (id, name, description, channel_id)
    select 'hotel-' || i, 'Hotel ' || i, repeat('abcdefghij', 60), 'c' || i from generate_series(0, ${HOTELS - 1}) i`;
  for (let round = 0; round < 2; round++) await sendForAll(service);

  const used = await memoryOf([service.pid, ...(await childrenOf(service.pid))]);
  expect(used).toBeGreaterThan(Number(data.L1_MAX_BYTES));
  expect(used).toBeLessThan(Number.parseFloat(requests.memory) * 1024 * MIB);
  expect(requests.memory).toMatch(/^\d+Gi$/);
});

async function sendForAll(service: Service): Promise<void> {
  for (let start = 0; start < HOTELS; start += AT_ONCE * BATCH) {
    const batches = Array.from({ length: AT_ONCE }, async (_, k) => {
      const channel_ids = Array.from({ length: BATCH }, (_, i) => `c${start + k * BATCH + i}`);
      // on a busy machine some are rejected; all are cached at the end
      const status = async () => (await service.post('/hotels/channel/batch', { channel_ids })).status;
      await expect.poll(status).toBe(200);
    });
    await Promise.all(batches);
  }
}

/** Returns bytes; memory shared by processes counts once. */
async function memoryOf(pids: number[]): Promise<number> {
  const maps = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/smaps_rollup`, 'utf8')));
  return maps.reduce((sum, map) => sum + 1024 * Number(/^Pss:\s+(\d+)/m.exec(map)![1]), 0);
}
