import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { AllWorkers } from '../support/all-workers.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { holdUps } from '../support/hold-ups.ts';
import { needs } from '../support/needs.ts';
import { pathOf } from '../support/programs.ts';
import { checksTimes, promisedMs } from '../support/run-length.ts';
import { type Service, startBeside, startService } from '../support/service.ts';

const DAY_MS = 86_400_000;
/** Time in which the caches are filled. */
const BEFORE_MS = 25_000;
/** Time in which workers become current again. */
const SETTLED_MS = 2_000;
/** With a faked clock, each read of it costs a read of a file: larger batches would be rejected as too much work. */
const HOTELS = 100;
await needs('faketime', 'redis');
const library = await pathOf('faketime');
const dayOf = (epochMs: number) => new Date(epochMs).toISOString().slice(0, 10);

const counted = (service: Service, tier: string) => service.metric('hotel_api_cache_lookups_total', { tier });

const rejections = async (service: Service) =>
  (await service.metrics()).match(/^hotel_api_requests_rejected_total.* [1-9].*$/gm);

/** The first half of the hotels is certified until midnight, the other half from then on. */
const endsAtMidnight = (i: number) => i < HOTELS / 2;
const SINGLES = ['/hotels/h1', `/hotels/h${HOTELS - 1}`];

it('at 00:00 UTC every tier refreshes expired hotels within a second, from nowhere but itself', async () => {
  const clock = await FakeClock.make(library!);
  const midnightMs = Math.ceil(clock.now() / DAY_MS) * DAY_MS;
  await clock.set(midnightMs - 60_000);
  const hotels = Array.from({ length: HOTELS }, (_, i) => ({
    id: `h${i}`,
    channel_id: `C${i}`,
    certified_from: endsAtMidnight(i) ? '2020-01-01' : dayOf(midnightMs),
    certified_until: endsAtMidnight(i) ? dayOf(midnightMs - DAY_MS) : '2090-01-01',
    certification_url: 'https://badge.example/',
  }));
  // a busy worker or machine must not look like a slow Redis or PostgreSQL
  const env = { ...clock.env, REDIS_TIMEOUT_MS: '10000', DATABASE_TIMEOUT_MS: '10000' };
  const service = await startService({ workers: 2, hotels, env });
  const withoutLocal = await startBeside(service, { env: { ...env, L1_MAX_BYTES: '0' } });
  const allWorkers = await AllWorkers.of(service, withoutLocal);
  const channel_ids = hotels.map(({ channel_id }) => channel_id);
  // a step of the clock may look like a sleep of the machine: it precedes the filling
  await clock.set(midnightMs - BEFORE_MS);
  await sleep(SETTLED_MS);
  const fromPostgres = () => counted(withoutLocal, 'postgres');
  // until Redis holds them all
  for (let known = -1, requested = 0; known !== requested; ) {
    known = await fromPostgres();
    for (let i = 0; i < 3; i++) await allWorkers.post('/hotels/channel/batch', { channel_ids });
    requested = await fromPostgres();
  }
  const singles = async () => (await Promise.all(SINGLES.map((path) => allWorkers.get(path)))).flat();
  const tagsBefore = new Set((await singles()).map(({ headers }) => headers.etag!));
  expect(clock.now()).toBeLessThan(midnightMs);
  await sleep(Math.max(0, midnightMs - 1_500 - clock.now()));
  await expect.poll(() => service.metric('hotel_api_log_current')).toBe(2);
  await expect.poll(() => withoutLocal.metric('hotel_api_log_current')).toBe(1);
  const requestedBefore = await Promise.all([counted(service, 'redis'), counted(withoutLocal, 'postgres')]);
  // a primary process that is held up longer makes its workers not current, which then read PostgreSQL
  const heldUp = async () => (await holdUps(service, 0.5)) + (await holdUps(withoutLocal, 0.5));
  const heldUpBefore = await heldUp();

  let lastWrongMs = 0;
  let slowestMs = 0;
  const tags = new Set(tagsBefore);
  /** batches that were answered before and after midnight */
  const answered = { before: 0, after: 0 };
  let rejected = 0;
  for (let sentMs = 0; sentMs < midnightMs + 1_500; ) {
    sentMs = clock.now();
    const [hotelsOfNow, lists, batches] = await Promise.all([
      singles(),
      allWorkers.get('/hotels?limit=3'),
      Math.abs(sentMs - midnightMs) < 400 || sentMs % 7 === 0
        ? allWorkers.post('/hotels/channel/batch', { channel_ids })
        : [],
    ]);
    const doneMs = clock.now();
    if (sentMs >= midnightMs) slowestMs = Math.max(slowestMs, doneMs - sentMs);
    for (const response of hotelsOfNow) {
      tags.add(response.headers.etag!);
      check(response.json(), sentMs, doneMs);
    }
    for (const response of lists) {
      expect(response.json()).toHaveLength(3);
      for (const hotel of response.json()) check(hotel, sentMs, doneMs);
    }
    for (const response of batches) {
      // a worker that is held up rejects batches: none may wait for longer than it is worth
      if (response.status === 503 && !checksTimes) {
        console.log(await rejections(service), await rejections(withoutLocal));
        rejected++;
        continue;
      }
      expect(response.json()).toHaveLength(HOTELS);
      answered[sentMs < midnightMs ? 'before' : 'after']++;
      for (const hotel of response.json()) check(hotel, sentMs, doneMs);
    }
  }
  function check(
    hotel: { id: string; certified: boolean; certification_url: string | null },
    sentMs: number,
    doneMs: number,
  ) {
    expect(hotel.certification_url === null).toBe(!hotel.certified);
    const before = endsAtMidnight(Number(hotel.id.slice(1)));
    if (doneMs < midnightMs) expect(hotel.certified).toBe(before);
    else if (sentMs >= midnightMs && hotel.certified === before) lastWrongMs = sentMs - midnightMs;
  }
  console.log(`wrong until ${lastWrongMs} ms after midnight; the slowest round took ${slowestMs} ms`);
  expect(lastWrongMs).toBeLessThan(promisedMs(1_000));
  expect(tagsBefore.size).toBe(SINGLES.length);
  expect(tags.size).toBe(2 * SINGLES.length);
  expect(answered.before).toBeGreaterThan(rejected);
  expect(answered.after).toBeGreaterThan(rejected);
  const [redis, postgres] = await Promise.all([counted(service, 'redis'), counted(withoutLocal, 'postgres')]);
  if ((await heldUp()) === heldUpBefore)
    expect([redis - requestedBefore[0]!, postgres - requestedBefore[1]!]).toEqual([0, 0]);
});
