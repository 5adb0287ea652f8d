/** Returns the time in ms since the epoch on a monotonic clock, which all processes of a test share. */
export const now = (): number => performance.timeOrigin + performance.now();

/** Kinds of requests of the load. */
export const KINDS = [
  /** one hotel that was requested before, by any of its ids */
  'single',
  /** 100 hotels that were requested before */
  'batch',
  /** one hotel that was never requested */
  'cold',
  /** an id without a hotel that was never requested */
  'unknown',
] as const;
export type Kind = (typeof KINDS)[number];

export const OUTCOMES = [
  /** expected status and bytes */
  'ok',
  /** 503 in the contract's form, with Retry-After */
  'unavailable',
  /** any other response */
  'wrong',
  /** connection closed before the response was complete, or not established */
  'lost',
  /** no response for 10 s */
  'silent',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** Request of the load; times in ms since the epoch. */
export interface Sample {
  kind: Kind;
  outcome: Outcome;
  /** due time, regardless of delays of the sender */
  dueMs: number;
  /** time from then to the end of the response */
  tookMs: number;
}

/** Requests a second of each kind. */
export type Mix = Record<Kind, number>;

/** Load of the promise: 200 requests/s. */
export const USUAL_MIX: Mix = { single: 110, batch: 40, cold: 25, unknown: 25 };

/** Settings of the load generator's process. */
export type Order =
  | {
      type: 'start';
      port: number;
      key: string;
      /** hotels 0 to `warm` are requested repeatedly, those from there to `hotels` once each */
      warm: number;
      hotels: number;
    }
  | { type: 'mix'; mix: Mix }
  | { type: 'stop' };

/** Report of the load generator, ten times a second. */
export type Report =
  | { type: 'samples'; samples: Sample[]; faults: string[]; late: number[]; at: number }
  | { type: 'stopped' };
