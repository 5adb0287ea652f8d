import type { Hotel } from '../../../src/hotels/hotel.ts';

/**
 * Returns a hotel for the examples of the document, as a key with the `registry` scope sees it. `seed` generates a hotel with
 * these ids, so the examples work on the demo.
 */
export function exampleHotel(): Hotel {
  return {
    id: 'htl_sliji9ej',
    name: 'Grand Hotel Meridian',
    description:
      'A quiet house by the river, ten minutes from the old town. Breakfast is served until eleven.',
    address: '12 Rue du Quai, 45750 Saint-Pryvé-Saint-Mesmin',
    postal_code: '45750',
    city: 'Saint-Pryvé-Saint-Mesmin',
    country_code: 'FR',
    latitude: 47.883581,
    longitude: 1.869862,
    language: 'fr',
    star_rating: null,
    room_count: 66,
    website_url: 'https://meridian.example.com/',
    email: null,
    images: [
      { url: 'https://cdn.example.com/hotels/htl_sliji9ej/1.jpg', caption: 'Terrace in the evening' },
      { url: 'https://cdn.example.com/hotels/htl_sliji9ej/2.jpg', caption: null },
    ],
    certified: true,
    certified_from: '2025-01-01',
    certified_until: '2034-12-31',
    certification_url: 'https://certificates.example.com/htl_sliji9ej',
    channel_id: 'CH100011',
    registry_id: 500011,
  };
}
