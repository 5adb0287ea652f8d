import { monotonicMs } from '../lib/clock.ts';
import type { Proof, Redis } from '../redis/client.ts';
import { isNoOlder, isOfSameTerm, markerKey } from './write-marker.ts';

/** Minimum interval of the checks, each of which reads one key. */
const CHECK_EVERY_MS = 1_000;
/** In place of a marker that Redis does not hold. */
const NONE = '';
const ELSEWHERE = "the connection leads to another server than the invalidator's";

/**
 * Detects that the connections of this process lead to another Redis than those of the active invalidator, as to a former
 * master that a failover left running. Its values do not follow the changes. The announced write marker, or a later one,
 * is in the invalidator's Redis.
 */
export class MarkerWatch implements Proof {
  readonly #redis: Redis;
  readonly #onSuspect: (sinceMs: number) => void;
  /** key of the marker */
  key = '';
  /** the last announced marker; null: unknown, or the invalidator could not leave one */
  #announced: string | null = null;
  #checkedAtMs = -Infinity;
  /** start of the last check that found the invalidator's marker, and the number of its connection */
  #confirmedAtMs = -Infinity;
  #confirmedConnection = 1;
  /** marker of another term that the last check found, '' for none, and the one announced then */
  #unknown: { found: string; announced: string } | undefined;

  /** `onSuspect` is called with the time since which values read from Redis are suspect, by `monotonicMs`. */
  constructor(redis: Redis, onSuspect: (sinceMs: number) => void) {
    this.#redis = redis;
    this.#onSuspect = onSuspect;
  }

  /** Follows the invalidators of this history from now on. */
  follow(history: string): void {
    this.key = markerKey(history);
    this.#announced = null;
    this.#unknown = undefined;
  }

  /** Handles the marker of a message of the change feed; checks Redis if that is due. */
  announced(marker: string | null, nowMs = monotonicMs()): void {
    this.#announced = marker;
    if (marker === null || nowMs - this.#checkedAtMs < CHECK_EVERY_MS) return;
    this.#checkedAtMs = nowMs;
    void this.#check(marker, nowMs);
  }

  /** Returns true if this is the announced marker or a later one. */
  isGivenBy(found: string | undefined): boolean {
    return found !== undefined && this.#announced !== null && isNoOlder(found, this.#announced);
  }

  async #check(announced: string, nowMs: number): Promise<void> {
    const { key } = this;
    const values = await this.#redis.readMany([key], '');
    if (!values || key !== this.key) return;
    const found = String(values.value(0) ?? NONE);
    const before = this.#unknown;
    this.#unknown = undefined;
    if (isNoOlder(found, announced)) this.#confirm(nowMs);
    else if (isOfSameTerm(found, announced)) this.#elsewhere();
    // it may be the first marker of a new term, whose announcement is under way, or evicted until the next one
    else if (before?.found === found && before.announced !== announced) this.#elsewhere();
    else this.#unknown = { found, announced };
  }

  #confirm(nowMs: number): void {
    const { connection } = this.#redis;
    // the connections since the last check may have led elsewhere
    if (connection !== this.#confirmedConnection) this.#onSuspect(this.#confirmedAtMs);
    this.#confirmedConnection = connection;
    this.#confirmedAtMs = nowMs;
  }

  #elsewhere(): void {
    this.#redis.distrust(ELSEWHERE, this);
    this.#onSuspect(this.#confirmedAtMs);
  }
}
