import { exampleRow, type HotelRow } from './rows.ts';
import type { KnownRequest } from './steady-load.ts';

/** Returns the hotel of this number: about 1 kB of JSON; its certification never changes. */
export function hotelRow(i: number): HotelRow {
  return {
    ...exampleRow(),
    id: `chaos-${i}`,
    name: `Hotel № ${i}`,
    description: `The ${i}th house on the road, and ${'still the same quiet view of the sea, '.repeat(14)}${i}.`,
    latitude: (i % 90) + 0.25,
    longitude: -(i % 180) - 0.5,
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
  return JSON.stringify(hotelRow(i)).replace('"certified_from":', '"certified":true,$&');
}

/** Returns a batch of the hotels of these numbers, and its response. */
export function batchOf(numbers: readonly number[]): KnownRequest {
  return {
    path: '/hotels/channel/batch',
    body: JSON.stringify({ channel_ids: numbers.map((i) => `CH-${i}`) }),
    answer: `[${numbers.map(hotelBody).join(',')}]`,
  };
}

/** Returns requests of the first hotels: single ones by each id, and batches of 100. */
export function requestsOf(hotels: number): KnownRequest[] {
  return Array.from({ length: hotels }, (_, i) => {
    if (i % 5 === 4)
      return batchOf(Array.from({ length: Math.min(100, hotels) }, (_, j) => (i + j) % hotels));
    const path = [`chaos-${i}`, `channel/CH-${i}`, `registry/${500_000 + i}`][i % 3];
    return { path: `/hotels/${path}`, answer: hotelBody(i) };
  });
}
