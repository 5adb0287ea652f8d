import { beforeAll, describe, expect, it } from 'vitest';
import { AllWorkers, named, status } from '../support/all-workers.ts';
import { FreshnessWatch } from '../support/freshness-watch.ts';
import { needs } from '../support/needs.ts';
import { promisedMs, shortOrLong } from '../support/run-length.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

await needs('redis');

const CHANGES = shortOrLong(30, 60);

let service: Service;
let allWorkers: AllWorkers;
let freshness: FreshnessWatch;
/** ms from the commit until every worker of both instances returned the change */
const lagsMs: number[] = [];

beforeAll(async () => {
  const hotels = Array.from({ length: 50 }, (_, i) => ({
    id: `h${i}`,
    channel_id: `C${i}`,
    registry_id: i + 1,
  }));
  service = await startService({ workers: 2, hotels });
  const instances = [service, await startBeside(service, { workers: 2 })];
  allWorkers = await AllWorkers.of(...instances);
  freshness = new FreshnessWatch(...instances);
});

/** Records the time until this was true everywhere, which must be within a second. */
async function seen(...[path, isSo]: Parameters<AllWorkers['until']>): Promise<void> {
  lagsMs.push(await allWorkers.until(path, isSo, 1_000));
}

describe('a commit is served by every worker of every instance within a second:', () => {
  it('an UPDATE', async () => {
    for (let i = 0; i < CHANGES; i++) {
      const id = `h${i % 50}`;
      await allWorkers.get(`/hotels/${id}`);
      await service.sql`update hotels set name = ${`update ${i}`} where id = ${id}`;
      await seen(`/hotels/${id}`, named(`update ${i}`));
    }
  });

  it('an INSERT of a hotel that was cached as absent, by each of its ids', async () => {
    for (let i = 0; i < CHANGES; i++) {
      const paths = [`/hotels/new${i}`, `/hotels/channel/NEW${i}`, `/hotels/registry/${1000 + i}`];
      for (const path of paths)
        for (const response of await allWorkers.get(path)) expect(response.status).toBe(404);
      await service.insert({ id: `new${i}`, name: 'new', channel_id: `NEW${i}`, registry_id: 1000 + i });
      await seen(paths[i % 3]!, named('new'));
      for (const path of paths) await allWorkers.until(path, named('new'));
    }
  });

  it('a DELETE', async () => {
    for (let i = 0; i < CHANGES; i++) {
      await service.sql`delete from hotels where id = ${`new${i}`}`;
      await seen(i % 2 === 0 ? `/hotels/new${i}` : `/hotels/channel/NEW${i}`, status(404));
    }
  });

  it('an id that moves from one hotel to another, and back', async () => {
    for (let i = 0; i < CHANGES; i++) {
      const [from, to] = i % 2 === 0 ? ['h1', 'h2'] : ['h2', 'h1'];
      await service.sql.begin(async (sql) => {
        await sql`update hotels set channel_id = null, registry_id = null where id = ${from!}`;
        await sql`update hotels set channel_id = 'HANDED', registry_id = 777 where id = ${to!}`;
      });
      await seen(
        '/hotels/channel/HANDED',
        ({ status, text }) => status === 200 && JSON.parse(text).id === to,
      );
      await allWorkers.until('/hotels/registry/777', ({ text }) => JSON.parse(text).id === to);
      await allWorkers.until(`/hotels/${from}`, ({ text }) => JSON.parse(text).channel_id === null);
    }
  });

  it('a changed primary key', async () => {
    await allWorkers.get('/hotels/renamed');
    await service.sql`update hotels set id = 'renamed' where id = 'h5'`;
    await seen('/hotels/h5', status(404));
    await allWorkers.until('/hotels/renamed', status(200));
    await allWorkers.until('/hotels/channel/C5', ({ text }) => JSON.parse(text).id === 'renamed');
  });

  it.each(['"', '\\', 'a,b', '{}', 'NULL', 'null', ' ', '\n', '\\"', '酒店 😀', "it's"])(
    'a hotel whose ids are %j',
    async (id) => {
      const paths = ['', 'channel/'].map((kind) => `/hotels/${kind}${encodeURIComponent(id)}`);
      for (const path of paths) await allWorkers.until(path, status(404));
      await service.insert({ id, channel_id: id, name: 'v1' });
      for (const path of paths) await allWorkers.until(path, named('v1'));
      await service.sql`update hotels set name = 'v2' where id = ${id}`;
      for (const path of paths) await allWorkers.until(path, named('v2'));
      await service.sql`delete from hotels where id = ${id}`;
      for (const path of paths) await allWorkers.until(path, status(404));
    },
  );

  it('a thousand statements of one transaction, and one statement of a thousand rows', async () => {
    await service.sql.begin(async (sql) => {
      for (let i = 0; i < 1_000; i++) await sql`update hotels set room_count = ${i} where id = 'h9'`;
      await sql`insert into hotels (id, name) select 'many' || i, 'many' from generate_series(1, 1000) as i`;
    });
    await seen('/hotels/h9', ({ text }) => JSON.parse(text).room_count === 999);
    await allWorkers.until('/hotels/many1000', named('many'));
  });

  it('a TRUNCATE', async () => {
    await allWorkers.get('/hotels/h3');
    await service.sql`truncate hotels`;
    await seen('/hotels/h3', status(404));
    await allWorkers.until('/hotels?limit=1', ({ text }) => text === '[]');
    await service.insert({ id: 'h3', name: 'after' });
    await seen('/hotels/h3', named('after'));
  });

  it('with a median within 100 ms', () => {
    const sorted = lagsMs.toSorted((a, b) => a - b);
    const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))]!.toFixed(1);
    console.log(`${sorted.length} changes: median ${at(0.5)} ms, 99% ${at(0.99)} ms, longest ${at(1)} ms`);
    expect(Number(at(0.5))).toBeLessThan(promisedMs(100));
  });

  it('and the checker that ran meanwhile found nothing stale', async () => {
    const { stale, answers, changes } = await freshness.stop();
    expect(stale).toEqual([]);
    expect(answers).toBeGreaterThan(500);
    expect(changes).toBeGreaterThan(50);
  });
});
