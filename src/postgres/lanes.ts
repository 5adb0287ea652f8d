import { Unavailable } from '../errors.ts';
import { monotonicMs } from '../lib/clock.ts';
import { Turns } from '../lib/turns.ts';

/** Time for which a table counts as locked after a query has waited for it in vain. */
const LOCKED_MS = 1_000;

/**
 * Purposes of queries (hotels; keys; members of collections; pages of the list; pages of changes; background work), with the share of
 * the connections that they may use. Slow ones leave some for others. The queries of a lane read the same tables.
 */
const SHARES = { load: 1, keys: 1, members: 1, list: 1 / 2, changes: 1 / 4, background: 1 / 4 };
export type Lane = keyof typeof SHARES;

/** Queries of one lane, or of all. */
export class Queries extends Turns {
  /** when a query last waited for the lock of a table in vain, by `monotonicMs`; -Infinity: a later one was answered */
  lockedAtMs = -Infinity;

  constructor(maxRunning: number) {
    super(maxRunning, 0, 1);
  }

  /**
   * Returns true if a new query would exceed the queue, or would probably time out in it. An owner of which none waits is
   * rejected by the length of the queue alone: others may have made it slow, and the owner waits for one query of each of them.
   */
  isFull(owner: string, limit: number, maxWaitMs: number, nowMs: number): boolean {
    const { waiting } = this;
    // beyond the limit, an owner below its share may still wait, up to a bound
    const isLong = waiting.sizeBefore(owner) >= limit || waiting.length >= 2 * limit;
    return this.mustWait && (isLong || (waiting.has(owner) && waiting.isFull(owner, maxWaitMs, nowMs)));
  }

  /**
   * Throws if a table is locked and `others` queries wait for it already. One does, so that the end of the lock is noticed;
   * more would occupy the connections that queries of other tables need. After a while without queries, all try again.
   */
  requireUnlocked(others: number): void {
    if (others > 0 && monotonicMs() - this.lockedAtMs < LOCKED_MS)
      throw new Unavailable('a table is locked', 'postgres_locked');
  }
}

/** Returns the queries of each lane. */
export function openLanes(connections: number): Record<Lane, Queries> {
  const lanes = Object.entries(SHARES).map(([lane, share]) => [
    lane,
    new Queries(Math.max(1, Math.floor(share * connections))),
  ]);
  return Object.fromEntries(lanes);
}
