import { exampleHotel } from '../../src/api-docs/example-hotel.ts';
import type { HotelRow } from './hotel.ts';

/** Returns the hotel of the API documentation's examples as a row. */
export function exampleRows(): Partial<HotelRow>[] {
  const { certified: _, ...row } = exampleHotel(new Date().getUTCFullYear());
  return [row];
}
