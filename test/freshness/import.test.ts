import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { seed } from '../../src/cli/seed.ts';
import { freshDatabase } from '../support/database.ts';
import { Everywhere } from '../support/everywhere.ts';
import { type Service, startService } from '../support/service.ts';
import { type Witness, watchFreshness } from '../support/witness.ts';

const HOTELS = 100_000;
/** So long after the commit of an import all of it is shown. */
const VISIBLE_MS = 5_000;
/** the default of DATABASE_POOL_SIZE */
const POOL = 8;

let service: Service;
let everywhere: Everywhere;
let witness: Witness;
let ids: { id: string; channel_id: string }[];

beforeAll(async () => {
  const database = await freshDatabase();
  await seed(database.sql, HOTELS, { seed: 1, today: '2026-01-01' });
  service = await startService({ database, workers: 2 });
  everywhere = await Everywhere.of(service);
  witness = watchFreshness(service);
  ids =
    await service.sql`select id, channel_id from hotels where channel_id is not null order by id collate "C"`;
}, 60_000);

/** Every 997th hotel, asked for in one batch. */
const spread = () => ids.filter((_, i) => i % 997 === 0).map(({ channel_id }) => channel_id);

/** Asks for random batches until stopped; statuses by count. */
function load(): { stop: () => Promise<Map<number, number>> } {
  const statuses = new Map<number, number>();
  let stopped = false;
  const ask = async () => {
    while (!stopped) {
      const start = Math.floor(Math.random() * (ids.length - 500));
      const channel_ids = ids.slice(start, start + 500).map(({ channel_id }) => channel_id);
      const { status } = await service.post('/hotels/channel/batch', { channel_ids });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      await sleep(5);
    }
  };
  const asking = [ask(), ask(), ask(), ask()];
  return {
    stop: async () => {
      stopped = true;
      await Promise.all(asking);
      return statuses;
    },
  };
}

/** The most queries of the workers that ran at once, looked at until stopped. */
function watchConcurrency(): { stop: () => Promise<number> } {
  let most = 0;
  let stopped = false;
  const watching = (async () => {
    while (!stopped) {
      const [row] = await service.sql<{ running: number }[]>`
        select count(*)::int as running from pg_stat_activity
        where datname = current_database() and application_name = 'hotel-api serve' and state = 'active'`;
      most = Math.max(most, row!.running);
      await sleep(10);
    }
  })();
  return {
    stop: async () => {
      stopped = true;
      await watching;
      return most;
    },
  };
}

async function untilAllShow(roomCount: number, patienceMs: number): Promise<number> {
  const beganMs = performance.now();
  for (;;) {
    const answers = await everywhere.post('/hotels/channel/batch', { channel_ids: spread() });
    const tookMs = performance.now() - beganMs;
    if (
      answers.every((answer) =>
        answer.json().every((hotel: { room_count: number }) => hotel.room_count === roomCount),
      )
    )
      return tookMs;
    if (tookMs > patienceMs) throw new Error(`not everywhere after ${tookMs} ms`);
  }
}

it('an import of 100,000 hotels is seen everywhere within 5 s of its commit, fails no request and keeps PostgreSQL bounded', async () => {
  witness.allowAge(VISIBLE_MS);
  const asking = load();
  const watching = watchConcurrency();
  await service.sql`update hotels set room_count = 4711`;
  const tookMs = await untilAllShow(4711, VISIBLE_MS);
  const statuses = await asking.stop();
  const most = await watching.stop();
  console.log(
    `100,000 hotels: everywhere ${Math.round(tookMs)} ms after the commit; ${statuses.get(200)} batches meanwhile; at most ${most} queries at once`,
  );
  expect([...statuses.keys()]).toEqual([200]);
  expect(most).toBeLessThanOrEqual(2 * POOL);
}, 60_000);

it('one that is rolled back is never seen', async () => {
  const asking = load();
  await service.sql
    .begin(async (transaction) => {
      await transaction`update hotels set room_count = 1`;
      const answers = await everywhere.post('/hotels/channel/batch', { channel_ids: spread() });
      for (const answer of answers) for (const hotel of answer.json()) expect(hotel.room_count).toBe(4711);
      throw new Error('no');
    })
    .catch((error: Error) => expect(error.message).toBe('no'));
  await untilAllShow(4711, 1_000);
  expect([...(await asking.stop()).keys()]).toEqual([200]);
}, 60_000);
