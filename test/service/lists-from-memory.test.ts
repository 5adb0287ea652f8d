import { beforeAll, describe, expect, it } from 'vitest';
import { insertHotels } from '../support/hotel.ts';
import type { FaultProxy } from '../support/proxy.ts';
import { type Service, startBehindProxy } from '../support/service.ts';
import { within } from '../support/stall-detector.ts';
import { withoutTriggers } from '../support/triggers.ts';

const TIMEOUT_MS = 1_000;
const HOTELS = 500;
const PIPELINED = 10;

let service: Service;
let proxy: FaultProxy;

beforeAll(async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => ({ id: `h${String(i).padStart(3, '0')}` }));
  ({ service, proxy } = await startBehindProxy({
    redis: false,
    hotels,
    env: { DATABASE_TIMEOUT_MS: '1000' },
  }));
});

const page = (offset: number, limit: number) => service.get(`/hotels?limit=${limit}&offset=${offset}`);
const idsOf = (text: string): string[] => JSON.parse(text).map(({ id }: { id: string }) => id);
/** Waits until a page has these ids. */
const shows = (offset: number, limit: number, ids: string[]) =>
  within(
    TIMEOUT_MS,
    () => page(offset, limit),
    ({ text }) => expect(idsOf(text)).toEqual(ids),
  );
/** Deletes hotels without an announcement. */
const deleteUnannounced = (ids: string[]) =>
  withoutTriggers(service.sql, (sql) => sql`delete from hotels where id = any(${ids})`);
const queries = () =>
  service.metric('hotel_api_dependency_duration_seconds_count', { dependency: 'postgres' });

describe('pages of hotels that are cached', () => {
  it('are served without a query, with their earlier tag and links', async () => {
    const first = await Promise.all([page(0, 100), page(195, 20)]);
    const before = await queries();
    for (let i = 0; i < 20; i++)
      for (const [at, [offset, limit]] of [
        [0, 100],
        [195, 20],
      ].entries()) {
        const { status, text, headers } = await page(offset!, limit!);
        const { etag, link } = first[at]!.headers;
        expect([status, text, headers.etag, headers.link]).toEqual([200, first[at]!.text, etag, link]);
      }
    // the service's own queries are counted too
    expect(await queries()).toBeLessThan(before + 20);
  });

  it('are all served on one connection, in order, with any pipelining', async () => {
    for (let offset = 0; offset < 200; offset += 20) await page(offset, 20);
    const requests = Array.from(
      { length: PIPELINED },
      (_, i) =>
        `GET /hotels?limit=20&offset=${i * 20} HTTP/1.1\r\nHost: a\r\nx-api-key: ${service.fullKey}\r\n\r\n`,
    );
    const answers = (await service.raw(requests.join(''), { half: true })).toString();
    const bodies = answers.split(/HTTP\/1\.1 200 OK\r\n/).slice(1);
    expect(bodies).toHaveLength(PIPELINED);
    for (const [i, body] of bodies.entries())
      expect(body).toContain(`[{"id":"h${String(i * 20).padStart(3, '0')}"`);
  });

  it('are as long as requested when a hotel is deleted whose deletion was not announced yet', async () => {
    await page(300, 2);
    await deleteUnannounced(['h303', 'h304']);
    const { text, headers } = await page(302, 2);
    expect(idsOf(text)).toEqual(['h302', 'h305']);
    expect(headers.link).toContain('offset=304>; rel="next"');
    expect(idsOf((await page(302, 2)).text)).toEqual(['h302', 'h305']);
    await insertHotels(service.sql, [{ id: 'h303' }, { id: 'h304' }]);
    await shows(302, 2, ['h302', 'h303']);
  });

  it('are as long as requested also when the next cached ids are deleted too', async () => {
    // the ids of the segments from h200 and h400 on; the last page is known when the list is divided into segments
    for (const offset of [400, 200])
      await within(
        10_000,
        () => page(offset, 1),
        ({ headers }) => expect(headers.link).toContain('rel="last"'),
      );
    const deleted = Array.from({ length: 186 }, (_, i) => ({ id: `h${225 + i}` }));
    await deleteUnannounced(deleted.map(({ id }) => id));
    const { text } = await page(220, 20);
    await insertHotels(service.sql, deleted);
    expect(idsOf(text)).toEqual(Array.from({ length: 20 }, (_, i) => `h${i < 5 ? 220 + i : 406 + i}`));
    const present = Array.from({ length: 20 }, (_, i) => `h${220 + i}`);
    await shows(220, 20, present);
  });

  it('are answered while PostgreSQL is unavailable, and others are not', async () => {
    const held = await page(0, 50);
    await service.sql`insert into hotels (id, name) values ('z', 'last')`;
    await shows(HOTELS, 5, ['z']);
    await service.sql`update hotels set name = 'again' where id = 'h300'`;
    await within(
      TIMEOUT_MS,
      () => page(300, 1),
      ({ text }) => expect(text).toContain('again'),
    );
    proxy.blackout();
    try {
      await expect
        .poll(async () => {
          const { status } = await page(250, 100);
          return [status, await service.metric('hotel_api_breaker_open', { dependency: 'postgres' })];
        })
        .toEqual([503, 1]);
      for (let i = 0; i < 10; i++) {
        const { status, text } = await page(0, 50);
        expect([status, text]).toEqual([200, held.text]);
      }
    } finally {
      proxy.heal();
    }
  });
});
