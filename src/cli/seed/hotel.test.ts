import { expect, test } from 'vitest';
import { encodeHotel } from '../../hotels/encode.ts';
import { readHotel } from '../import/hotel.ts';
import { hotelAt, hotelIdAt } from './hotel.ts';

const TODAY = '2026-06-01';
const hotels = Array.from({ length: 5000 }, (_, index) => hotelAt(index, 1, TODAY));
const share = (holds: (hotel: (typeof hotels)[number]) => boolean) =>
  hotels.filter(holds).length / hotels.length;

test('ids of all three kinds are unique, and an id depends on the index alone', () => {
  for (const column of ['id', 'channel_id', 'registry_id'] as const) {
    const ids = hotels.map((hotel) => hotel[column]).filter((id) => id !== null);
    expect(new Set(ids).size, column).toBe(ids.length);
  }
  expect(hotelAt(9, 2, TODAY).id).toBe(hotelIdAt(9));
  expect(hotelIdAt(9)).toMatch(/^htl_[0-9a-z]{8}$/);
});

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

test('ratings and e-mail addresses are null, as specified; most other fields are set', () => {
  expect(share(({ star_rating, email }) => star_rating === null && email === null)).toBe(1);
  expect(share(({ channel_id }) => channel_id !== null)).toBeCloseTo(0.9, 1);
  expect(share(({ registry_id }) => registry_id !== null)).toBeCloseTo(0.8, 1);
});

test('certification periods are past, present and future', () => {
  expect(share(({ certified_until }) => certified_until !== null && certified_until < TODAY)).toBeGreaterThan(
    0.05,
  );
  expect(share(({ certified_from }) => certified_from !== null && certified_from > TODAY)).toBeGreaterThan(
    0.05,
  );
  const isCurrent = share(
    ({ certified_from, certified_until }) =>
      certified_from !== null && certified_from <= TODAY && certified_until! >= TODAY,
  );
  expect(isCurrent).toBeCloseTo(0.5, 1);
});
