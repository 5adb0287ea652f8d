import type { ReceivedPosition } from './history.ts';

/** Position of an instance that has received nothing. */
export const NOTHING_RECEIVED: ReceivedPosition = { version: 0, history: '', number: -1, term: '', count: 0 };
