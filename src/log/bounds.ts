/**
 * The bounds of time by which cached values are served, in one place. docs/guarantees.md states what they add up to.
 */

/** Interval of the polls of an instance; shorter while changes arrive. */
export const POLL_MS = 150;
export const BUSY_POLL_MS = 25;
/** Timeout of a poll. A late answer is no sign of life, so another connection is tried. */
export const POLL_TIMEOUT_MS = 1_000;
/** Timeout of opening a connection, which takes several round trips. */
export const OPEN_TIMEOUT_MS = 1_500;
/** Interval of the messages to workers while nothing changes. */
export const HEARTBEAT_MS = 200;

/** A worker that is current as of this time ago serves every cached value that no known change outdates. */
export const CURRENT_WITHIN_MS = 1_500;
/** The same for members of collections: what a key may see is known within a second, without exception. */
export const MEMBERS_WITHIN_MS = 900;
/** Maximum age of what is served while the worker is not current: older values are read again from PostgreSQL. */
export const MAX_AGE_NOT_CURRENT_MS = 3_300;
/** A worker that was current this time ago serves the positions of the list as it knows them. */
export const POSITIONS_WITHIN_MS = 4_500;
/**
 * While PostgreSQL does not answer either, values of any age are served. If its first answer comes later than this after the
 * worker was current, other clients may have got newer values. Values of any age are then served for one more grace time only.
 * The worker becomes current again meanwhile.
 */
export const OUTAGE_AFTER_MS = 3_500;
export const GRACE_MS = 1_000;
/** Gap between two looks at the clock by which this process was stopped. PostgreSQL may have answered others meanwhile. */
export const STOPPED_MS = 1_500;
/** Maximum age of a value in a local cache, whatever is known. It is then read again, from Redis first. */
export const MAX_AGE_MS = 3_600_000;
/** Maximum time for which a cache holds that there is no such hotel or API key, whatever is known. */
export const MAX_ABSENCE_MS = 60_000;

/** Maximum age of a value that another client has seen replaced. */
const PROMISED_MS = 5_000;

const RELATIONS = {
  'CURRENT_WITHIN_MS + MAX_AGE_NOT_CURRENT_MS <= 5 s':
    CURRENT_WITHIN_MS + MAX_AGE_NOT_CURRENT_MS <= PROMISED_MS,
  'OUTAGE_AFTER_MS + GRACE_MS <= 5 s': OUTAGE_AFTER_MS + GRACE_MS <= PROMISED_MS,
  'POSITIONS_WITHIN_MS <= 5 s': POSITIONS_WITHIN_MS <= PROMISED_MS,
  'CURRENT_WITHIN_MS < OUTAGE_AFTER_MS': CURRENT_WITHIN_MS < OUTAGE_AFTER_MS,
  'two polls and their news fit into MEMBERS_WITHIN_MS': POLL_MS + HEARTBEAT_MS < MEMBERS_WITHIN_MS / 2,
  'MEMBERS_WITHIN_MS < CURRENT_WITHIN_MS': MEMBERS_WITHIN_MS < CURRENT_WITHIN_MS,
};
for (const [relation, holds] of Object.entries(RELATIONS))
  if (!holds) throw new Error(`the bounds of src/log/bounds.ts contradict each other: ${relation}`);
