import { Hotel } from '../../../src/hotels/hotel.ts';

/** Returns the hotel of the examples, as a key with the `registry` scope sees it. */
export function exampleHotel(): Hotel {
  const fields = Object.entries(Hotel.properties).map(([field, { examples }]) => [field, examples[0]]);
  return { ...Object.fromEntries(fields), certified_from: '2025-01-01', certified_until: '2034-12-31' };
}
