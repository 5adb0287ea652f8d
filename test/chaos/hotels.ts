import type { HotelRow } from '../support/hotel.ts';

/** Returns an id without a hotel. */
export const unknownId = (i: number): string => `unknown-${i}`;

/** Returns the hotel of this number: about 1 kB of JSON; its certification never changes. */
export function hotelRow(i: number): HotelRow {
  return {
    id: `chaos-${i}`,
    name: `Hotel № ${i}`,
    description: `The ${i}th house on the road, and ${'still the same quiet view of the sea, '.repeat(14)}${i}.`,
    address: `${i} Harbour Road`,
    postal_code: String(10_000 + (i % 90_000)),
    city: 'Łódź',
    country_code: 'PL',
    latitude: (i % 90) + 0.25,
    longitude: -(i % 180) - 0.5,
    language: 'pl',
    star_rating: null,
    room_count: (i % 300) + 1,
    website_url: `https://hotel-${i}.example/`,
    email: null,
    images: [{ url: `https://cdn.example/${i}.jpg`, caption: i % 2 === 0 ? null : `View "${i}"` }],
    certified_from: '2020-01-01',
    certified_until: '9999-12-31',
    certification_url: `https://badge.example/${i}`,
    channel_id: `CH-${i}`,
    registry_id: 500_000 + i,
  };
}

/** Returns the API's body of it for a key with full scope, written from the contract independently of the service's code. */
export function hotelBody(i: number): string {
  const { certified_from, certified_until, certification_url, channel_id, registry_id, ...rest } =
    hotelRow(i);
  return JSON.stringify({
    ...rest,
    certified: true,
    certified_from,
    certified_until,
    certification_url,
    channel_id,
    registry_id,
  });
}
