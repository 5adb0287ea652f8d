import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { whole } from '../../bench/figures.ts';
import { seed } from '../../src/cli/seed.ts';
import { counts, Program } from '../cli/program.ts';
import { AllWorkers } from '../support/all-workers.ts';
import { freshDatabase } from '../support/database.ts';
import { FreshnessWatch } from '../support/freshness-watch.ts';
import { checksTimes, promisedMs, shortOrLong } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';
import { ownTimeMs } from '../support/stall-detector.ts';

const HOTELS = shortOrLong(30_000, 100_000);
const MANY = whole(HOTELS);
/** Time after the commit of an import until all of it is visible. */
const VISIBLE_MS = promisedMs(5_000);
/** Maximum number of waiting queries during an import: a fraction of DATABASE_QUEUE_LIMIT, of which there are two. */
const MAX_WAITING = 100;

let service: Service;
let allWorkers: AllWorkers;
let freshness: FreshnessWatch;
let ids: { id: string; channel_id: string }[];

beforeAll(async () => {
  const database = await freshDatabase();
  await seed(database.sql, HOTELS, { seed: 1, today: '2026-01-01' });
  service = await startService({ database, workers: 2 });
  allWorkers = await AllWorkers.of(service);
  freshness = new FreshnessWatch(service);
  ids =
    await service.sql`select id, channel_id from hotels where channel_id is not null order by id collate "C"`;
});

/** Returns about a hundred of the hotels, requested in one batch. */
const spread = () =>
  ids.filter((_, i) => i % Math.floor(ids.length / 100) === 0).map(({ channel_id }) => channel_id);

/** Repeats work concurrently until it is stopped, or the test ends. */
function repeating<Seen>(
  atOnce: number,
  work: () => Promise<void>,
  seen: () => Seen,
): { stop: () => Promise<Seen> } {
  let stopped = false;
  const repeat = async () => {
    while (!stopped) await work();
  };
  const running = Promise.all(Array.from({ length: atOnce }, repeat));
  const stop = async () => {
    stopped = true;
    await running;
    return seen();
  };
  onTestFinished(async () => void (await stop()));
  return { stop };
}

/** Requests random batches until it is stopped. Returns responses by status. */
function load() {
  const statuses = new Map<number, number>();
  const send = async () => {
    const start = Math.floor(Math.random() * (ids.length - 500));
    const channel_ids = ids.slice(start, start + 500).map(({ channel_id }) => channel_id);
    const { status } = await service.post('/hotels/channel/batch', { channel_ids });
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    await sleep(5);
  };
  return repeating(4, send, () => statuses);
}

/** Samples the number of waiting queries of the workers until it is stopped. Returns the maximum. */
function watchQueue() {
  let most = 0;
  const look = async () => {
    most = Math.max(most, await service.metric('hotel_api_postgres_queries_waiting'));
    await sleep(20);
  };
  return repeating(1, look, () => most);
}

/** Waits until every worker returns all of these with this number of rooms. Returns the time in ms. */
async function untilAllShow(
  roomCount: number,
  timeoutMs: number,
  channel_ids: string[] = spread(),
): Promise<number> {
  const beganMs = ownTimeMs();
  for (;;) {
    const responses = await allWorkers.post('/hotels/channel/batch', { channel_ids });
    const tookMs = ownTimeMs() - beganMs;
    const shown = responses.map((response) => response.json() as { room_count: number }[]);
    if (
      shown.every(
        (hotels) =>
          hotels.length === channel_ids.length && hotels.every(({ room_count }) => room_count === roomCount),
      )
    )
      return tookMs;
    if (tookMs > timeoutMs) throw new Error(`not everywhere after ${tookMs} ms`);
  }
}

/** room count of every hotel that is changed last */
let rooms = 4_711;

interface Writing {
  what: string;
  write: () => Promise<void>;
  /** channel ids of some of the written hotels */
  requested: () => string[];
}

const WRITINGS: Writing[] = [
  {
    what: 'an UPDATE',
    write: async () => void (await service.sql`update hotels set room_count = ${rooms}`),
    requested: () => spread(),
  },
  {
    what: 'new ones by hotel-api import, cached as absent',
    write: async () => {
      const program = await Program.set(service.database);
      const rows = Array.from({ length: HOTELS }, (_, i) =>
        JSON.stringify({
          id: `new-${i}`,
          name: `New ${i}`,
          channel_id: `NEW-${i}`,
          room_count: rooms,
        }),
      );
      await writeFile(join(program.folder, 'new.ndjson'), `${rows.join('\n')}\n`);
      expect(await program.json(['import', 'new.ndjson'])).toEqual(counts({ inserted: HOTELS }));
    },
    requested: () => Array.from({ length: 100 }, (_, i) => `NEW-${Math.floor((i * HOTELS) / 100)}`),
  },
];

describe(`${MANY} hotels are visible everywhere within 5 s of their commit, with no request failed or rejected:`, () => {
  it.each(WRITINGS)('$what', async ({ what, write, requested }) => {
    freshness.allowAge(VISIBLE_MS);
    await allWorkers.post('/hotels/channel/batch', { channel_ids: requested() });
    const rejectedBefore = await service.metric('hotel_api_requests_rejected_total');
    rooms++;
    const requesting = load();
    const watching = watchQueue();
    await write();
    const tookMs = Math.round(await untilAllShow(rooms, VISIBLE_MS, requested()));
    const statuses = await requesting.stop();
    const most = await watching.stop();
    console.log(
      `${MANY} hotels, ${what}: everywhere ${tookMs} ms after the commit; ${statuses.get(200)} batches meanwhile; ` +
        `at most ${most} queries waited`,
    );
    expect(statuses.get(200)).toBeGreaterThan(0);
    expect([...statuses.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    if (!checksTimes) return;
    expect([...statuses.keys()]).toEqual([200]);
    expect(await service.metric('hotel_api_requests_rejected_total')).toBe(rejectedBefore);
    expect(most).toBeLessThan(MAX_WAITING);
  });
});

it('a rolled-back import is never visible', async () => {
  const before = (await allWorkers.post('/hotels/channel/batch', { channel_ids: spread() }))[0]!.json()[0]
    .room_count;
  const requesting = load();
  await service.sql
    .begin(async (transaction) => {
      await transaction`
        update hotels set room_count = 1 where hashtext(id) % 10 = 0 or channel_id = any(${spread()})`;
      const responses = await allWorkers.post('/hotels/channel/batch', { channel_ids: spread() });
      const served = responses.filter((response) => checksTimes || response.status !== 503);
      expect(served).not.toHaveLength(0);
      for (const response of served)
        for (const hotel of response.json()) expect(hotel.room_count).toBe(before);
      throw new Error('no');
    })
    .catch((error: Error) => expect(error.message).toBe('no'));
  await untilAllShow(before, promisedMs(1_000));
  const statuses = [...(await requesting.stop()).keys()];
  expect(checksTimes ? statuses : statuses.filter((status) => status !== 503)).toEqual([200]);
});
