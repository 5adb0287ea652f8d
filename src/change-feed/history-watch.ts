import type { Sql } from 'postgres';
import { monotonicMs } from '../lib/clock.ts';
import type { MacSecret } from '../lib/mac.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import {
  beginHistory,
  type HistoryPosition,
  isBefore,
  type Progress,
  type ReceivedPosition,
  readPosition,
} from './history.ts';
import type { FeedMessage } from './messages.ts';

/** Minimum interval between queries, however many forged messages or failures request them. */
const MIN_CHECK_INTERVAL_MS = 1_000;

export interface HistoryOptions {
  /** position at the start of the instance */
  start: HistoryPosition;
  /** secret of that history */
  secret: MacSecret;
  /** called when the database follows another history: every cached value is invalid */
  onHistory: (position: HistoryPosition) => void;
  metrics: Metrics;
  events: Events;
}

/**
 * Tracks which history of the database the instance follows. It checks the database after each connect and after a
 * message that does not belong to the history. If the database has gone back, it begins a new history.
 */
export class HistoryWatch {
  readonly #options: HistoryOptions;
  /** last known, in the history that the instance follows */
  #progress: Progress;
  #isChecking = false;
  #checkedAtMs = -Infinity;
  #isSuspect = false;
  /** largest version received in any history */
  #largestVersion = 0;
  /** a message continued from a position before the received one */
  #isBack = false;

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.#progress = progressOf(options.start);
  }

  /** Returns the position before which no term of this instance may begin. */
  get lastReceived(): ReceivedPosition {
    return { version: this.#largestVersion, ...this.#progress };
  }

  received(message: FeedMessage): void {
    const { history, ...before } = this.#progress;
    const [term, count] = message.p;
    if (message.e !== before.term && term === before.term && count < before.count) {
      this.#isBack = true;
      this.#isSuspect = true;
    }
    this.#progress = { history, number: message.o, term: message.e, count: message.w };
    for (const [, version] of message.h ?? []) this.#noteVersion(version);
    for (const [, version] of message.k ?? []) this.#noteVersion(version);
  }

  /** Requests a check, because something does not belong to the history. */
  suspect(): void {
    this.#isSuspect = true;
  }

  /** Runs a requested check. To be called periodically. */
  async checkIfSuspect(sql: Sql): Promise<void> {
    if (this.#isSuspect && monotonicMs() - this.#checkedAtMs > MIN_CHECK_INTERVAL_MS) await this.check(sql);
  }

  /** Queries the primary; a failed query is repeated. */
  async check(sql: Sql): Promise<void> {
    this.#isSuspect = true;
    if (this.#isChecking) return;
    this.#isChecking = true;
    this.#isSuspect = false;
    try {
      await this.#check(sql);
    } catch {
      this.#isSuspect = true;
    } finally {
      this.#isChecking = false;
      this.#checkedAtMs = monotonicMs();
    }
  }

  async #check(sql: Sql): Promise<void> {
    const known = this.#progress;
    let position = await readPosition(sql);
    const goesOn = position.history === known.history;
    const isBack = (goesOn && this.#isBack) || isBefore(position, known);
    const fault = position.fault ?? (isBack ? 'it has lost announced changes' : null);
    if (fault !== null) {
      await beginHistory(sql, position.history, fault, this.lastReceived);
      position = await readPosition(sql);
    }
    if (position.history !== this.#progress.history) this.#follow(position);
  }

  #follow(position: HistoryPosition): void {
    const { secret, onHistory, metrics, events } = this.#options;
    this.#progress = progressOf(position);
    this.#isBack = false;
    secret.use(position.secret);
    metrics.historyChanges.inc();
    events.historyChanged(position.history, position.reason);
    onHistory(position);
  }

  #noteVersion(version: number): void {
    if (version > this.#largestVersion) this.#largestVersion = version;
  }
}

/** Returns the progress without the rest, which is secret in part. */
function progressOf({ history, number, term, count }: HistoryPosition): Progress {
  return { history, number, term, count };
}
