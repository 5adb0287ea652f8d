import { exampleHotels } from '../../src/api-docs/example-hotels.ts';
import type { HotelRow } from './hotel.ts';

/** The hotels of the document's examples, as rows. */
export function exampleRows(): Partial<HotelRow>[] {
  return exampleHotels(new Date().getUTCFullYear()).map(({ certified: _, ...row }) => row);
}
