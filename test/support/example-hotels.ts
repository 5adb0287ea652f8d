import { exampleHotels } from '../../src/api-docs/example-hotels.ts';
import type { HotelRow } from './hotel.ts';

/** Returns the hotels of the API documentation's examples as rows. */
export function exampleRows(): Partial<HotelRow>[] {
  return exampleHotels(new Date().getUTCFullYear()).map(({ certified: _, ...row }) => row);
}
