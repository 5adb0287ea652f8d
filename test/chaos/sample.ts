/** What the load asks for. */
export const KINDS = [
  /** one hotel that was asked for before, by any of its ids */
  'single',
  /** 100 hotels that were asked for before */
  'batch',
  /** one hotel that nobody has asked for yet */
  'cold',
  /** an id that no hotel carries and nobody has asked for yet */
  'unknown',
] as const;
export type Kind = (typeof KINDS)[number];

export const OUTCOMES = [
  /** the right status with the right bytes */
  'ok',
  /** 503 in the contract's form, with Retry-After */
  'unavailable',
  /** any other answer */
  'wrong',
  /** the connection ended before the answer was complete, or could not be made */
  'lost',
  /** nothing came for 10 s */
  'silent',
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/** One request of the load; times in ms since the epoch. */
export interface Sample {
  kind: Kind;
  outcome: Outcome;
  /** when it was due, whenever it could be sent: waiting for the sender counts */
  dueMs: number;
  /** from then to the end of the answer */
  tookMs: number;
}

/** How many requests of each kind a second. */
export type Mix = Record<Kind, number>;

/** The load of the promise: 200 requests/s. */
export const USUAL_MIX: Mix = { single: 110, batch: 40, cold: 25, unknown: 25 };

/** What the load's process is told. */
export type Order =
  | {
      type: 'start';
      port: number;
      key: string;
      mix: Mix;
      /** hotels 0 to `warm` are asked for again and again, those from there to `hotels` once each */
      warm: number;
      hotels: number;
    }
  | { type: 'mix'; mix: Mix }
  | { type: 'stop' };

/** What it tells, ten times a second. */
export type Report =
  | { type: 'samples'; samples: Sample[]; faults: string[]; late: number[]; at: number }
  | { type: 'stopped' };
