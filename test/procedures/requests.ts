import { hotelBody, hotelRow } from '../chaos/hotels.ts';
import type { CheckedRequest } from '../chaos/keep-alive-load.ts';

const HOTELS = 300;
/** Hotels: the first half is requested; the others are in no cache. */
export const ROWS = Array.from({ length: 2 * HOTELS }, (_, i) => hotelRow(i));

/** Rate of the load, which a machine with other work on it carries too: a test counts failures, not time. */
export const PER_SECOND = 40;

/** Deadlines that a machine with other work on it keeps: a request that waits longer is rejected. */
export const DEADLINES = { DATABASE_TIMEOUT_MS: '5000', REDIS_TIMEOUT_MS: '1000' };

/** Requests of single hotels and of batches of 100. */
export const REQUESTS: CheckedRequest[] = Array.from({ length: HOTELS }, (_, i) => {
  if (i % 5 !== 4) return { path: `/hotels/chaos-${i}`, answer: hotelBody(i) };
  const numbers = Array.from({ length: 100 }, (_, j) => (i + j) % HOTELS);
  return {
    path: '/hotels/channel/batch',
    body: JSON.stringify({ channel_ids: numbers.map((number) => hotelRow(number).channel_id) }),
    answer: `[${numbers.map(hotelBody).join(',')}]`,
  };
});

/** Ids that are never requested. */
export const COLD_IDS = ROWS.slice(HOTELS).map(({ id }) => id);
