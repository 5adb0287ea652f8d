import { expect, it } from 'vitest';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { linesOf } from '../support/log-lines.ts';
import { needs } from '../support/needs.ts';
import { changeKey, insertHotels, insertKey, withoutTriggers } from '../support/rows.ts';
import { startBeside, startService } from '../support/service.ts';

await needs('redis');

const HOTELS = Array.from({ length: 20 }, (_, i) => ({ id: `h${i}`, channel_id: `C${i}` }));

const service = await startService({ workers: 2, hotels: HOTELS });
/** needs Redis for every request */
const bare = await startBeside(service, { env: { L1_MAX_BYTES: '0' } });
/** has no Redis */
const alone = await startBeside(service, { redis: false });
const allWorkers = await AllWorkers.of(service, bare, alone);

it('a commit is served by every worker of every instance, also of hotels that were absent and whose ids are syntax elsewhere', async () => {
  const ids = ['new', '"', '\\', 'a,b', '{}', 'NULL', 'null', ' ', '\n', '\\"', '酒店 😀', "it's"];
  const paths = ids.flatMap((id) =>
    ['', 'channel/'].map((kind) => `/hotels/${kind}${encodeURIComponent(id)}`),
  );
  paths.push('/hotels/registry/1000');
  for (const path of paths) await allWorkers.until(path, status(404));
  const hotels = ids.map((id, i) => ({ id, channel_id: id, registry_id: 1_000 + i, name: 'v1' }));
  await insertHotels(service.sql, hotels);
  for (const path of paths) await allWorkers.until(path, named('v1'));
  await service.sql`update hotels set name = 'v2' where id = any(${ids})`;
  for (const path of paths) await allWorkers.until(path, named('v2'));
  await service.sql`delete from hotels where id = any(${ids})`;
  for (const path of paths) await allWorkers.until(path, status(404));
});

it('rows that were written with triggers disabled are served once `hotel_api_invalidate()` is called', async () => {
  const key = await insertKey(service.sql, []);
  await allWorkers.until('/hotels/h11', status(200), key);
  await allWorkers.until('/hotels/nowhere', status(404));
  await withoutTriggers(service.sql, async (sql) => {
    await sql`update hotels set name = 'unannounced' where id = 'h12'`;
    await sql`delete from hotels where id = 'h13'`;
    await sql`insert into hotels (id, name) values ('nowhere', 'here')`;
    await changeKey(sql, key, { revoked_at: new Date() });
  });
  await service.sql`select hotel_api_invalidate()`;
  await allWorkers.until('/hotels/channel/C12', named('unannounced'));
  await allWorkers.until('/hotels/h13', status(404));
  await allWorkers.until('/hotels/nowhere', named('here'));
  await allWorkers.until('/hotels/h11', status(401), key);
});

it('a service without Redis logs one warning', () => {
  const lines = linesOf(alone.logs()).filter(({ level, msg }) => level === 'warn' && /redis/i.test(msg));
  expect(lines).toHaveLength(1);
});
