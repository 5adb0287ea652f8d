import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { untilApplied } from '../support/log-state.ts';
import { addToCollection, insertCollection, insertKey, removeFromCollection } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

let service: Service;

beforeAll(async () => {
  const hotels = Array.from({ length: 5 }, (_, i) => ({ id: `h${i}`, registry_id: 500_000 + i }));
  service = await startService({ hotels });
});

/** Returns the response to a request that waits while the change is made. It ends before its time only if it is woken. */
async function awaited(key: string, change: (keyHash: Buffer) => Promise<unknown>) {
  await untilApplied(service);
  const { next } = (await service.get('/changes?limit=1000', { key })).json();
  const waiting = service.get(`/changes?limit=1000&wait=30&after=${next}`, { key });
  await expect.poll(() => service.metric('hotel_api_changes_waiting')).toBe(1);
  await change(Buffer.from(hashOf(key), 'hex'));
  const response = await waiting;
  const { changes = [] } = response.json() as { changes?: { id: string; hotel: Hotel | null }[] };
  return { status: response.status, changes: changes.map(({ id, hotel }) => [id, hotel?.registry_id]) };
}

interface Hotel {
  registry_id: number | null;
}

describe('a request for changes that waits is woken by', () => {
  it('a scope that is gained: all hotels come with their registry ids', async () => {
    const key = await insertKey(service.sql, []);
    const { changes } = await awaited(
      key,
      (hash) => service.sql`update api_keys set scopes = '{registry}' where key_sha256 = ${hash}`,
    );
    expect(changes).toEqual(Array.from({ length: 5 }, (_, i) => [`h${i}`, 500_000 + i]));
  });

  it('hotels that come into its collection or leave it, and by its deletion', async () => {
    await insertCollection(service.sql, 'some', ['h1', 'h2']);
    const key = await insertKey(service.sql, ['registry'], 'some');
    const added = await awaited(key, () => addToCollection(service.sql, 'some', ['h3']));
    expect(added.changes).toEqual([['h3', 500_003]]);
    const removed = await awaited(key, () => removeFromCollection(service.sql, 'some', ['h1']));
    expect(removed.changes).toEqual([['h1', undefined]]);
    const { status, changes } = await awaited(
      key,
      () => service.sql`delete from collections where id = 'some'`,
    );
    // its last members are gone, or the copy begins again
    expect([200, 410]).toContain(status);
    if (status === 200) expect(changes.map(([id]) => id).sort()).toEqual(['h2', 'h3']);
  });

  it('the end of its validity', async () => {
    const key = await insertKey(service.sql, []);
    const { status } = await awaited(
      key,
      (hash) => service.sql`update api_keys set expires_at = now() where key_sha256 = ${hash}`,
    );
    expect(status).toBe(401);
  });
});
