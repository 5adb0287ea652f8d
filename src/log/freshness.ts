import { monotonicMs, onClockStep, onTick } from '../lib/clock.ts';

// The bounds of time by which cached values are served. docs/guarantees.md states what they add up to.

/** Interval of the polls of an instance; shorter while changes arrive. */
export const POLL_MS = 150;
export const BUSY_POLL_MS = 25;
/** Timeout of a poll. A late answer is no sign of life, so another connection is tried. */
export const POLL_TIMEOUT_MS = 1_000;
/** Timeout of opening a connection, which takes several round trips. */
export const OPEN_TIMEOUT_MS = 1_500;

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
  'two polls fit into MEMBERS_WITHIN_MS': 2 * POLL_MS < MEMBERS_WITHIN_MS / 2,
  'MEMBERS_WITHIN_MS < CURRENT_WITHIN_MS': MEMBERS_WITHIN_MS < CURRENT_WITHIN_MS,
};
for (const [relation, holds] of Object.entries(RELATIONS))
  if (!holds) throw new Error(`the bounds of src/log/freshness.ts contradict each other: ${relation}`);

/**
 * How far the knowledge of a worker reaches, and what it may therefore serve. The primary process has one too, from which new
 * workers begin.
 *
 * The argument. The worker is current as of a moment t if it has applied everything that had committed by t. A poll that
 * found nothing unread makes the instance current as of the poll's beginning, once its rows are applied; so does a poll
 * behind a call of the sequencer, as of the beginning of that message. The time of arrival means nothing: a slow link, a
 * long answer or a stopped process is no sign of life. While t is recent, what the window covers is right to within the
 * bound. Later, only what was read from PostgreSQL lately is served, and the rest is read again. While PostgreSQL does not
 * answer, values of any age are served. In an outage no newer ones can be read. If PostgreSQL answers other instances, these
 * may serve newer ones.
 *
 * Two times suffice while the machine is awake: when the worker was last current, and the first answer of PostgreSQL that came
 * too long after it. A sleep adds a third.
 */
export class Freshness {
  readonly #isUnavailable: () => boolean;
  readonly #onLateAnswer: (atMs: number) => void;
  #asOfMs = -Infinity;
  /** since when it has been current without a gap */
  #currentFromMs = -Infinity;
  #lateAnswerAtMs: number | undefined;
  /** values read before a sleep of the machine are older than they seem */
  #sleptAtMs = -Infinity;
  #seenAtMs = monotonicMs();

  /**
   * `isUnavailable`: returns true while PostgreSQL answers no probe. `onLateAnswer` is called at the first answer that comes
   * too long after the worker was current.
   */
  constructor(isUnavailable: () => boolean, onLateAnswer: (atMs: number) => void = () => {}) {
    this.#isUnavailable = isUnavailable;
    this.#onLateAnswer = onLateAnswer;
  }

  /** Monotonic time as of which the worker is current; -Infinity if it never was. */
  get asOfMs(): number {
    return this.#asOfMs;
  }

  /** The same for a worker that begins now; -Infinity also if PostgreSQL may have answered others since: it is no outage then. */
  get unansweredAsOfMs(): number {
    this.tick();
    return this.#lateAnswerAtMs === undefined ? this.#asOfMs : -Infinity;
  }

  /** Notices stops of this process and sleeps of the machine from now on. */
  watchClocks(): void {
    onTick(() => this.tick());
    onClockStep((_, sleptMs) => {
      if (sleptMs > 0) this.slept(sleptMs);
    });
  }

  /** Records that everything that had committed by this monotonic time is applied. */
  current(asOfMs: number, nowMs = monotonicMs()): void {
    // a time from before a sleep says nothing of what has committed since
    if (asOfMs <= this.#asOfMs || asOfMs < this.#sleptAtMs) return;
    if (!this.isCurrent(nowMs)) this.#currentFromMs = nowMs;
    this.#asOfMs = asOfMs;
    // no answer so far came late after it
    if (nowMs - asOfMs <= OUTAGE_AFTER_MS) this.#lateAnswerAtMs = undefined;
  }

  /** Forgets that the worker was ever current: it follows another history. */
  lost(): void {
    this.#asOfMs = -Infinity;
  }

  /** Records an answer of the primary server to this process. Replicas do not count: they answer while it is down. */
  answered(atMs: number): void {
    if (atMs - this.#asOfMs <= OUTAGE_AFTER_MS || this.#lateAnswerAtMs !== undefined) return;
    this.#lateAnswerAtMs = atMs;
    this.#onLateAnswer(atMs);
  }

  /** Records that the machine slept for this long: the monotonic clock stops then. */
  slept(ms: number, nowMs = monotonicMs()): void {
    this.#asOfMs -= ms;
    this.#sleptAtMs = nowMs;
    this.#mayHaveMissed(nowMs);
  }

  /** To be called several times a second, so that a stop of this process is noticed. */
  tick(nowMs = monotonicMs()): void {
    if (nowMs - this.#seenAtMs > STOPPED_MS) this.#mayHaveMissed(nowMs);
    this.#seenAtMs = nowMs;
  }

  isCurrent(nowMs = monotonicMs()): boolean {
    return nowMs - this.#asOfMs < CURRENT_WITHIN_MS;
  }

  /** Returns true if the worker is current, and has been for this long. */
  isCurrentFor(ms: number, nowMs = monotonicMs()): boolean {
    return this.isCurrent(nowMs) && nowMs - this.#currentFromMs >= ms;
  }

  /** Returns true if every change older than a second is known. */
  mayServeMembers(nowMs = monotonicMs()): boolean {
    return nowMs - this.#asOfMs < MEMBERS_WITHIN_MS;
  }

  /** Returns the monotonic time from which on a value must have been read to be served now. */
  oldestReadMs(nowMs: number): number {
    if (this.isCurrent(nowMs) || this.#servesAnyAge(nowMs)) return nowMs - MAX_AGE_MS;
    return Math.max(nowMs - MAX_AGE_NOT_CURRENT_MS, this.#sleptAtMs);
  }

  /** Returns true if positions of the list may be served as they are known. They were right when the worker was current. */
  mayServePositions(nowMs = monotonicMs()): boolean {
    return nowMs - this.#asOfMs < POSITIONS_WITHIN_MS || this.#servesAnyAge(nowMs);
  }

  /** Returns true if values of any age may be served when PostgreSQL does not answer a query. */
  mayServeAnyAge(nowMs = monotonicMs()): boolean {
    this.tick(nowMs);
    return (
      this.#asOfMs > -Infinity &&
      (this.#lateAnswerAtMs === undefined || nowMs - this.#lateAnswerAtMs < GRACE_MS)
    );
  }

  /** Ends the outage, because PostgreSQL may have answered others meanwhile: the grace time is over, as of this time. */
  #mayHaveMissed(nowMs: number): void {
    if (!this.isCurrent(nowMs)) this.#lateAnswerAtMs = nowMs - GRACE_MS;
  }

  #servesAnyAge(nowMs: number): boolean {
    return (this.#lateAnswerAtMs !== undefined || this.#isUnavailable()) && this.mayServeAnyAge(nowMs);
  }
}
