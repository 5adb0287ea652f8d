import { beforeAll, describe, expect, it } from 'vitest';
import { hotelBody } from '../chaos/hotels.ts';
import { Fixture } from '../chaos/service-fixture.ts';
import { needs } from '../support/needs.ts';

await needs('redis-server');

/** Hotels that every worker caches before the faults; those beyond are read once each. */
const WARM = 100;
const HOTELS = 4_000;

let fixture: Fixture;
let next = WARM;

beforeAll(async () => {
  fixture = await Fixture.set({ workers: 2, warm: WARM, hotels: HOTELS });
  await fixture.warm();
  await fixture.inWorkers();
});

/** Requests a hotel that is in no cache. */
const sendCold = () => fixture.service.get(`/hotels/chaos-${next++ % HOTELS}`);
const isRedisOpen = async () =>
  (await fixture.service.metric('hotel_api_breaker_open', { dependency: 'redis' })) > 0;

async function expectCachedAnswered(): Promise<void> {
  for (let i = 0; i < WARM; i += 7) {
    const { status, text } = await fixture.service.get(`/hotels/chaos-${i}`);
    expect([status, text]).toEqual([200, hotelBody(i)]);
  }
  const channel_ids = Array.from({ length: WARM }, (_, i) => `CH-${i}`);
  const batch = await fixture.service.post('/hotels/channel/batch', { channel_ids });
  expect(batch.text).toBe(`[${channel_ids.map((_, i) => hotelBody(i)).join(',')}]`);
}

/** Fails unless cached hotels are served and the rest is rejected with Retry-After. */
async function expectColdRejected(): Promise<void> {
  await expect
    .poll(async () => {
      const { status, headers, text } = await sendCold();
      return { status, retryAfter: headers['retry-after'], text };
    })
    .toEqual({
      status: 503,
      retryAfter: expect.stringMatching(/^\d+$/),
      text: '{"error":"Service unavailable"}',
    });
}

const redis = () => fixture.redis;
const postgres = () => fixture.postgres;

describe.each([
  ['killed', () => redis().server.kill(), () => redis().server.restart()],
  ['frozen', () => redis().server.freeze(), () => redis().server.thaw()],
  ['behind a black hole', () => redis().proxy.blackout(), () => redis().proxy.heal()],
])('while Redis is %s', (_, begin, end) => {
  it('cached and uncached hotels are served, and Redis is used again afterwards', async () => {
    await begin();
    try {
      await expectCachedAnswered();
      for (let i = 0; i < 5; i++) expect((await sendCold()).status).toBe(200);
      await expect.poll(async () => [(await sendCold()).status, await isRedisOpen()]).toEqual([200, true]);
    } finally {
      await end();
    }
    await expect.poll(async () => [(await sendCold()).status, await isRedisOpen()]).toEqual([200, false]);
    await expectCachedAnswered();
  });
});

describe.each([
  ['killed', () => postgres().server.kill(), () => postgres().server.restart()],
  ['frozen', () => postgres().server.freeze(), () => postgres().server.thaw()],
  ['behind a black hole', () => postgres().proxy.blackout(), () => postgres().proxy.heal()],
])('while PostgreSQL is %s', (_, begin, end) => {
  it('cached hotels are served, other requests are rejected, and all are served afterwards', async () => {
    // the workers have recovered from an earlier fault
    await fixture.inWorkers();
    await begin();
    try {
      await expectColdRejected();
      await expectCachedAnswered();
    } finally {
      await end();
    }
    await expect.poll(async () => (await sendCold()).status).toBe(200);
    await expectCachedAnswered();
  });
});

it("while both are killed, hotels in a worker's cache are served, and other requests are rejected", async () => {
  await fixture.inWorkers();
  await Promise.all([redis().server.kill(), postgres().server.kill()]);
  try {
    await expectColdRejected();
    await expectCachedAnswered();
  } finally {
    await Promise.all([redis().server.restart(), postgres().server.restart()]);
  }
  await expect.poll(async () => (await sendCold()).status).toBe(200);
  await expectCachedAnswered();
});
