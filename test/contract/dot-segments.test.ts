import { beforeAll, expect, it } from 'vitest';
import { readHotel } from '../../src/cli/import/hotel.ts';
import { insertHotels } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

let service: Service;

beforeAll(async () => {
  service = await startService({ redis: false });
});

it.each([
  [{ id: '.' }, 'hotels_id_is_no_dot_segment'],
  [{ id: '..' }, 'hotels_id_is_no_dot_segment'],
  [{ channel_id: '.' }, 'hotels_channel_id_is_no_dot_segment'],
  [{ channel_id: '..' }, 'hotels_channel_id_is_no_dot_segment'],
])('a hotel that no URL can name is rejected by the table and the import: %o', async (fields, constraint) => {
  const rejection = { code: '23514', constraint_name: constraint };
  await expect(insertHotels(service.sql, [fields])).rejects.toMatchObject(rejection);
  const [id] = await insertHotels(service.sql, [{}]);
  await expect(
    service.sql`update hotels set ${service.sql(fields as never)} where id = ${id!}`,
  ).rejects.toMatchObject(rejection);
  expect(readHotel({ id: 'a', name: 'A', ...fields }).fault).toMatch(/^(channel_)?id must be /);
});

it('other ids of dots are served', async () => {
  const [id] = await insertHotels(service.sql, [{ id: '...', channel_id: '.a' }]);
  const hotel = await service.get(`/hotels/${id}`);
  expect([hotel.status, hotel.json().id]).toEqual([200, '...']);
  expect((await service.get('/hotels/channel/.a')).text).toBe(hotel.text);
});
