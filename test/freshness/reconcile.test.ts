import { beforeAll, expect, it } from 'vitest';
import { hashOf } from '../../src/keys/key.ts';
import { Everywhere, named, status } from '../support/everywhere.ts';
import { insertKey } from '../support/key.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';
import { Stage, type StagedWorker } from '../support/stage.ts';
import { type Witness, watchFreshness } from '../support/witness.ts';

await needs('redis');

/** All is walked through in five steps of a second. */
const PATIENCE_MS = 12_000;

let service: Service;
let everywhere: Everywhere;
let witness: Witness;

beforeAll(async () => {
  const hotels = Array.from({ length: 300 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` }));
  service = await startService({ workers: 2, hotels });
  everywhere = await Everywhere.of(service);
  witness = watchFreshness(service);
});

/** What is done round the triggers, as restores with --disable-triggers do. */
async function unheard(work: (sql: Service['sql']) => Promise<unknown>): Promise<void> {
  await service.sql.begin(async (sql) => {
    await sql`alter table hotels disable trigger user`;
    await sql`alter table api_keys disable trigger user`;
    await work(sql as never);
    await sql`alter table hotels enable trigger user`;
    await sql`alter table api_keys enable trigger user`;
    for (const trigger of ['version', 'renamed', 'inserted', 'updated', 'deleted', 'truncated'])
      await sql.unsafe(`alter table hotels enable always trigger hotel_api_${trigger}`);
  });
}

it('what went round the triggers is found by comparing, corrected everywhere and counted', async () => {
  witness.allowAge(PATIENCE_MS);
  for (let i = 0; i < 300; i++) await service.get(`/hotels/channel/C${i}`);
  await everywhere.until('/hotels/nowhere', status(404));
  const key = await insertKey(service.sql, []);
  await everywhere.until('/hotels/h1', status(200), 1_000, key);

  await unheard(async (sql) => {
    await sql`update hotels set name = 'unheard' where id = 'h7'`;
    await sql`delete from hotels where id = 'h8'`;
    await sql`insert into hotels (id, name, version) values ('nowhere', 'here', nextval('hotel_api_versions'))`;
    await sql`update api_keys set revoked_at = now() where key_sha256 = ${Buffer.from(hashOf(key), 'hex')}`;
  });
  await Promise.all([
    everywhere.until('/hotels/h7', named('unheard'), PATIENCE_MS),
    everywhere.until('/hotels/h8', status(404), PATIENCE_MS),
    everywhere.until('/hotels/nowhere', named('here'), PATIENCE_MS),
    everywhere.until('/hotels/h1', status(401), PATIENCE_MS, key),
  ]);
  const reconciled = () =>
    Promise.all(['hotels', 'keys'].map((kind) => service.metric('hotel_api_reconciled_total', { kind })));
  await expect.poll(reconciled).toEqual([3, 1]);
});

it('a change whose doorbell does not ring is told within the promise all the same', async () => {
  const reconciled = async () => (await service.metrics()).match(/^hotel_api_reconciled_total.*$/gm);
  const before = await reconciled();
  for (let round = 0; round < 5; round++) {
    const name = `unrung ${round}`;
    await everywhere.get('/hotels/h20');
    await unheard(async (sql) => {
      await sql`update hotels set name = ${name}, version = nextval('hotel_api_versions') where id = 'h20'`;
      await sql`
        insert into hotel_api_changes (kind, ids, versions, channel_ids, registry_ids, moves_positions)
        select 'hotels', array[id], array[version], array[channel_id], array[registry_id], false
        from hotels where id = 'h20'`;
    });
    await everywhere.until('/hotels/h20', named(name));
  }
  expect(await reconciled()).toEqual(before);
});

it('where all is in order comparing finds nothing, and what went round the triggers it finds', async () => {
  const stage = await Stage.set();
  const [worker] = stage.workers as [StagedWorker];
  await stage.sql`
    insert into hotels (id, name, channel_id) select 'h' || i, 'v1', 'C' || i from generate_series(0, 299) as i`;
  const key = await insertKey(stage.sql, []);
  await stage.settle();
  for (let i = 0; i < 300; i++) {
    await stage.sql`update hotels set room_count = ${i} where id = ${`h${i % 100}`}`;
    if (i % 3 === 0) await stage.deliver();
    stage.hear();
    await worker.ask('channel', `C${(i * 7) % 300}`);
    if (i % 30 === 0) await stage.sql`delete from hotels where id = ${`h${i + 1}`}`;
  }
  await worker.keyring.load(key);
  await stage.settle();
  expect(await stage.compare()).toEqual({ entries: [], keys: [] });

  await stage.sql.begin(async (sql) => {
    await sql`alter table hotels disable trigger user`;
    await sql`update hotels set name = 'unheard' where id = 'h7'`;
    await sql`alter table hotels enable trigger user`;
  });
  expect(new Set((await stage.compare()).entries.map(({ id }) => id))).toEqual(new Set(['h7']));
});

it('what is damaged is counted and removed, though nobody asks for it', async () => {
  const names = await service.redis!.keys('*:h:h1');
  const inForce = names.sort((one, other) => one.length - other.length || (one < other ? -1 : 1)).at(-1)!;
  const damaged = inForce.replace(/h1$/, 'nobody asks for it');
  const counted = async () =>
    Number(/^hotel_api_redis_unsound_values_total (\d+)$/m.exec(await service.metrics())![1]);
  const before = await counted();
  await service.redis!.set(damaged, 'damaged');
  await expect.poll(counted, { timeout: 60_000, interval: 50 }).toBe(before + 1);
  await expect.poll(() => service.redis!.exists(damaged), { timeout: 60_000, interval: 20 }).toBe(0);
});
