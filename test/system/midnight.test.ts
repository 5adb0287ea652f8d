import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Everywhere } from '../support/everywhere.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { needs } from '../support/needs.ts';
import { pathOf } from '../support/programs.ts';
import { promisedMs } from '../support/run-length.ts';
import { type Service, startService } from '../support/service.ts';

const DAY_MS = 86_400_000;
/** Time in which the caches are filled. */
const BEFORE_MS = 25_000;
/** Interval of feed messages. */
const SETTLED_MS = 2_000;
/** With a faked clock, each read of it costs a read of a file: larger batches would be rejected as too much work. */
const HOTELS = 100;
await needs('faketime', 'redis');
const library = await pathOf('faketime');
const dayOf = (epochMs: number) => new Date(epochMs).toISOString().slice(0, 10);

const counted = (service: Service, tier: string) => service.metric('hotel_api_cache_answers_total', { tier });

describe('at 00:00 UTC', () => {
  it.each([
    ['of the day after certified_until', -1, true],
    ['of the day of certified_from', 0, false],
  ])(
    '%s every tier refreshes expired hotels within a second, from nowhere but itself',
    async (_, days, before) => {
      const clock = await FakeClock.make(library!);
      const midnightMs = Math.ceil(clock.now() / DAY_MS) * DAY_MS;
      await clock.set(midnightMs - 60_000);
      const flip = dayOf(midnightMs + days * DAY_MS);
      const hotels = Array.from({ length: HOTELS }, (_, i) => ({
        id: `h${i}`,
        channel_id: `C${i}`,
        certified_from: before ? '2020-01-01' : flip,
        certified_until: before ? flip : '2090-01-01',
        certification_url: 'https://badge.example/',
      }));
      // many large responses keep a worker busy, which must not look like a slow Redis
      const env = { ...clock.env, REDIS_TIMEOUT_MS: '2000' };
      const service = await startService({ workers: 2, hotels, env });
      const beside = { database: service.database, redisDatabase: service.redisDatabase! };
      const withoutLocal = await startService({ workers: 1, ...beside, env: { ...env, L1_MAX_BYTES: '0' } });
      const everywhere = await Everywhere.of(service, withoutLocal);
      const channel_ids = hotels.map(({ channel_id }) => channel_id);
      // a step of the clock marks the caches stale: it precedes the filling, and the feed confirms them
      await clock.set(midnightMs - BEFORE_MS);
      await sleep(SETTLED_MS);
      const fromPostgres = () => counted(withoutLocal, 'postgres');
      // until Redis holds them all
      for (let known = -1, asked = 0; known !== asked; ) {
        known = await fromPostgres();
        for (let i = 0; i < 3; i++) await everywhere.post('/hotels/channel/batch', { channel_ids });
        asked = await fromPostgres();
      }
      const [tagBefore] = (await everywhere.get('/hotels/h1')).map(({ headers }) => headers.etag);
      expect(clock.now()).toBeLessThan(midnightMs);
      await sleep(Math.max(0, midnightMs - 1_500 - clock.now()));
      const askedBefore = await Promise.all([counted(service, 'redis'), counted(withoutLocal, 'postgres')]);

      let lastWrongMs = 0;
      let slowestMs = 0;
      const tags = new Set<string>();
      while (clock.now() < midnightMs + 1_500) {
        const sentMs = clock.now();
        const [singles, lists, batches] = await Promise.all([
          everywhere.get('/hotels/h1'),
          everywhere.get('/hotels?limit=3'),
          Math.abs(sentMs - midnightMs) < 400 || sentMs % 7 === 0
            ? everywhere.post('/hotels/channel/batch', { channel_ids })
            : [],
        ]);
        const doneMs = clock.now();
        if (sentMs >= midnightMs) slowestMs = Math.max(slowestMs, doneMs - sentMs);
        for (const answer of singles) {
          tags.add(answer.headers.etag!);
          check(answer.json(), sentMs, doneMs);
        }
        for (const answer of lists) {
          expect(answer.json()).toHaveLength(3);
          for (const hotel of answer.json()) check(hotel, sentMs, doneMs);
        }
        for (const answer of batches) {
          expect(answer.json()).toHaveLength(HOTELS);
          for (const hotel of answer.json()) check(hotel, sentMs, doneMs);
        }
      }
      function check(
        hotel: { certified: boolean; certification_url: string | null },
        sentMs: number,
        doneMs: number,
      ) {
        expect(hotel.certification_url === null).toBe(!hotel.certified);
        if (doneMs < midnightMs) expect(hotel.certified).toBe(before);
        else if (sentMs >= midnightMs && hotel.certified === before) lastWrongMs = sentMs - midnightMs;
      }
      console.log(`wrong until ${lastWrongMs} ms after midnight; the slowest round took ${slowestMs} ms`);
      expect(lastWrongMs).toBeLessThan(promisedMs(1_000));
      expect(tags.size).toBe(2);
      expect(tags).toContain(tagBefore);
      const [redis, postgres] = await Promise.all([
        counted(service, 'redis'),
        counted(withoutLocal, 'postgres'),
      ]);
      expect([redis - askedBefore[0]!, postgres - askedBefore[1]!]).toEqual([0, 0]);
    },
  );
});
