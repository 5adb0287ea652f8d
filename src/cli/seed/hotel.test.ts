import { expect, test } from 'vitest';
import { encodeHotel } from '../../hotels/encode.ts';
import { readHotel } from '../import/hotel.ts';
import { hotelAt } from './hotel.ts';

const TODAY = '2026-06-01';
const hotels = Array.from({ length: 5000 }, (_, index) => hotelAt(index, 1, TODAY));

test('every hotel passes the checks of the import', () => {
  for (const hotel of hotels) expect(readHotel(JSON.parse(JSON.stringify(hotel))).hotel).toEqual(hotel);
});

test('an encoded hotel is about 1 kB, and a description has 300 to 600 characters', () => {
  const bytes = hotels.map((hotel) => encodeHotel(hotel, 1, 0).bodyLength('full'));
  const mean = bytes.reduce((sum, length) => sum + length) / bytes.length;
  expect(mean).toBeGreaterThan(900);
  expect(mean).toBeLessThan(1200);
  for (const { description } of hotels) {
    if (description === null) continue;
    expect(description.length).toBeGreaterThanOrEqual(300);
    expect(description.length).toBeLessThanOrEqual(600);
  }
});
