import type { Hotel } from '../hotels/hotel.ts';

/**
 * Returns two hotels for the examples of the document, as a key with the `registry` scope sees them. `seed` generates
 * hotels with these ids, so the examples work on the demo. `year`: a year in which the first is certified.
 */
export function exampleHotels(year: number): [certified: Hotel, sparse: Hotel] {
  const certified: Hotel = {
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
    certified_from: `${year}-01-01`,
    certified_until: `${year + 1}-12-31`,
    certification_url: 'https://certificates.example.com/htl_sliji9ej',
    channel_id: 'CH100011',
    registry_id: 500011,
  };
  const sparse: Hotel = {
    id: 'htl_36i8v7jp',
    name: 'Hotel Terrace Lodève',
    description: null,
    address: null,
    postal_code: '34700',
    city: 'Lodève',
    country_code: 'FR',
    latitude: null,
    longitude: null,
    language: 'fr',
    star_rating: null,
    room_count: null,
    website_url: null,
    email: null,
    images: [],
    certified: false,
    certified_from: null,
    certified_until: null,
    certification_url: null,
    channel_id: 'CH100005',
    registry_id: 500005,
  };
  return [certified, sparse];
}
