import { beforeAll, describe, expect, it } from 'vitest';
import type { FaultProxy } from '../support/proxy.ts';
import { insertHotels, withoutTriggers } from '../support/rows.ts';
import { type Service, startBehindProxy } from '../support/service.ts';

const HOTELS = 500;

let service: Service;
let proxy: FaultProxy;

beforeAll(async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => ({ id: `h${String(i).padStart(3, '0')}` }));
  ({ service, proxy } = await startBehindProxy({ redis: false, hotels }));
});

const page = (offset: number, limit: number) => service.get(`/hotels?limit=${limit}&offset=${offset}`);
const idsOf = (text: string): string[] => JSON.parse(text).map(({ id }: { id: string }) => id);
/** Waits until a page has these ids. */
const shows = (offset: number, limit: number, ids: string[]) =>
  expect.poll(async () => idsOf((await page(offset, limit)).text)).toEqual(ids);
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

  it('are answered while PostgreSQL is unavailable, and others are not', async () => {
    const held = await page(0, 50);
    await service.sql`insert into hotels (id, name) values ('z', 'last')`;
    await shows(HOTELS, 5, ['z']);
    await service.sql`update hotels set name = 'again' where id = 'h300'`;
    await expect
      .poll(async () => {
        const { text } = await page(300, 1);
        return text;
      })
      .toContain('again');
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
