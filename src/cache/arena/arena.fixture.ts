import { encodeHotel } from '../../hotels/encode.ts';
import type { Entry } from '../../hotels/entry.ts';
import { rowOf } from '../../hotels/row.fixture.ts';
import type { HotelRow } from '../../hotels/row.ts';

export const NOW_MS = Date.UTC(2026, 10, 21);

/** Returns the hotel of `rowOf`, read at the position `label` and encoded at NOW_MS. */
export function hotel({ label = 1, ...fields }: Partial<HotelRow> & { id: string; label?: number }): Entry {
  return encodeHotel(rowOf(fields), label, NOW_MS);
}
