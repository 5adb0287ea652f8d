import { EMPTY_ROW, type HotelRow } from './row.ts';

/** Returns a row of a hotel of about 800 bytes, with `fields` replaced. */
export function rowOf(fields: Partial<HotelRow> & { id: string }): HotelRow {
  return {
    ...EMPTY_ROW,
    name: 'Hotel',
    description: 'x'.repeat(200),
    address: 'Street 1',
    postal_code: '12345',
    city: 'City',
    country_code: 'DE',
    latitude: 1.5,
    longitude: 2.5,
    language: 'de',
    star_rating: 4,
    room_count: 100,
    ...fields,
  };
}
