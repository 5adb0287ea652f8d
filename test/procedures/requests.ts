import { hotelRow, requestsOf } from '../support/known-hotels.ts';

const HOTELS = 300;
/** Hotels: the first half is requested; the others are in no cache. */
export const ROWS = Array.from({ length: 2 * HOTELS }, (_, i) => hotelRow(i));

/** The procedures judge that each request is answered; the simulation judges the default deadline. */
export const DEADLINES = { REDIS_TIMEOUT_MS: '1000' };

/** Requests of single hotels and of batches of 100. */
export const REQUESTS = requestsOf(HOTELS);
