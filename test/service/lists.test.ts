import { beforeAll, expect, it } from 'vitest';
import { insertHotels, withoutTriggers } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

const HOTELS = 500;

let service: Service;

beforeAll(async () => {
  const hotels = Array.from({ length: HOTELS }, (_, i) => ({ id: `h${String(i).padStart(3, '0')}` }));
  service = await startService({ redis: false, hotels });
});

const page = (offset: number, limit: number) => service.get(`/hotels?limit=${limit}&offset=${offset}`);
const idsOf = (text: string): string[] => JSON.parse(text).map(({ id }: { id: string }) => id);
/** Waits until a page has these ids. */
const shows = (offset: number, limit: number, ids: string[]) =>
  expect.poll(async () => idsOf((await page(offset, limit)).text)).toEqual(ids);
/** Deletes hotels without an announcement. */
const deleteUnannounced = (ids: string[]) =>
  withoutTriggers(service.sql, (sql) => sql`delete from hotels where id = any(${ids})`);
it('a page is as long as requested when a hotel is deleted whose deletion was not announced yet', async () => {
  await page(300, 2);
  await deleteUnannounced(['h303', 'h304']);
  const { text, headers } = await page(302, 2);
  expect(idsOf(text)).toEqual(['h302', 'h305']);
  expect(headers.link).toContain('offset=304>; rel="next"');
  expect(idsOf((await page(302, 2)).text)).toEqual(['h302', 'h305']);
  await insertHotels(service.sql, [{ id: 'h303' }, { id: 'h304' }]);
  await shows(302, 2, ['h302', 'h303']);
});
