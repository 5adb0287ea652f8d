import { beforeAll, describe, expect, it } from 'vitest';
import { hashOf } from '../../src/auth/key.ts';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { insertHotels, insertKey, withoutTriggers } from '../support/rows.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('redis');

const HOTELS = Array.from({ length: 20 }, (_, i) => ({
  id: `h${i}`,
  channel_id: `C${i}`,
  registry_id: i + 1,
}));
const NO_LOCAL_CACHE = { L1_MAX_BYTES: '0' };

let service: Service;
/** needs Redis for every request */
let bare: Service;
/** has no Redis */
let alone: Service;
let allWorkers: AllWorkers;

beforeAll(async () => {
  service = await startService({ workers: 2, hotels: HOTELS });
  bare = await startBeside(service, { env: NO_LOCAL_CACHE });
  alone = await startBeside(service, { redis: false });
  allWorkers = await AllWorkers.of(service, bare, alone);
});

const sha256 = (key: string) => Buffer.from(hashOf(key), 'hex');

describe('a commit is served by every worker of every instance:', () => {
  it('an INSERT of a hotel that was cached as absent, by each of its ids, an UPDATE and a DELETE', async () => {
    const paths = ['/hotels/new', '/hotels/channel/NEW', '/hotels/registry/1000'];
    for (const path of paths) await allWorkers.until(path, status(404));
    await service.insert({ id: 'new', name: 'v1', channel_id: 'NEW', registry_id: 1000 });
    for (const path of paths) await allWorkers.until(path, named('v1'));
    await service.sql`update hotels set name = 'v2' where id = 'new'`;
    for (const path of paths) await allWorkers.until(path, named('v2'));
    await service.sql`delete from hotels where id = 'new'`;
    for (const path of paths) await allWorkers.until(path, status(404));
  });

  it('hotels whose ids are syntax elsewhere', async () => {
    const ids = ['"', '\\', 'a,b', '{}', 'NULL', 'null', ' ', '\n', '\\"', '酒店 😀', "it's"];
    const paths = ids.flatMap((id) =>
      ['', 'channel/'].map((kind) => `/hotels/${kind}${encodeURIComponent(id)}`),
    );
    for (const path of paths) await allWorkers.until(path, status(404));
    await insertHotels(
      service.sql,
      ids.map((id) => ({ id, channel_id: id, name: 'v1' })),
    );
    for (const path of paths) await allWorkers.until(path, named('v1'));
    await service.sql`delete from hotels where id = any(${ids})`;
    for (const path of paths) await allWorkers.until(path, status(404));
  });
});

it('rows that were written with triggers disabled are served once `hotel_api_invalidate()` is called', async () => {
  const key = await insertKey(service.sql, []);
  await allWorkers.until('/hotels/h11', status(200), key);
  await allWorkers.until('/hotels/nowhere', status(404));
  await withoutTriggers(service.sql, async (sql) => {
    await sql`update hotels set name = 'unannounced' where id = 'h12'`;
    await sql`delete from hotels where id = 'h13'`;
    await sql`insert into hotels (id, name) values ('nowhere', 'here')`;
    await sql`update api_keys set revoked_at = now() where key_sha256 = ${sha256(key)}`;
  });
  await service.sql`select hotel_api_invalidate()`;
  await allWorkers.until('/hotels/channel/C12', named('unannounced'));
  await allWorkers.until('/hotels/h13', status(404));
  await allWorkers.until('/hotels/nowhere', named('here'));
  await allWorkers.until('/hotels/h11', status(401), key);
  // an instance that starts learns it from the log
  const late = await startBeside(service, { env: NO_LOCAL_CACHE });
  expect((await late.get('/hotels/h12')).json().name).toBe('unannounced');
  expect((await late.get('/hotels/h11', { key })).status).toBe(401);
  await late.stop();
});

it('a service without Redis logs one warning', () => {
  const lines = linesOf(alone.logs()).filter(({ level, msg }) => level === 'warn' && /redis/i.test(msg));
  expect(lines).toHaveLength(1);
});
