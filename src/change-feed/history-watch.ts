import type { Sql } from 'postgres';
import { monotonicMs } from '../lib/clock.ts';
import type { MacSecret } from '../lib/mac.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import {
  beginHistory,
  type HistoryPosition,
  isBefore,
  type ReceivedPosition,
  readPosition,
} from './history.ts';
import type { FeedMessage } from './messages.ts';

/** Minimum interval between queries, however many forged messages or failures request them. */
const LOOK_AGAIN_MS = 1_000;

export interface HistoryOptions {
  /** history that the instance follows */
  history: string;
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
  #history: string;
  /** last message of the history */
  #received: FeedMessage | undefined;
  #looking = false;
  #lookedAtMs = -Infinity;
  #isSuspect = false;
  /** largest version received in any history */
  #largestVersion = 0;
  /** a message continued from a position before the received one */
  #isBack = false;

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.#history = options.history;
  }

  /** Returns the position before which no term of this instance may begin. */
  get lastReceived(): ReceivedPosition {
    const { o = 0, e = '', w = 0 } = this.#received ?? {};
    return { version: this.#largestVersion, history: this.#history, number: o, term: e, count: w };
  }

  received(message: FeedMessage): void {
    const before = this.#received;
    const [term, count] = message.p;
    if (before && message.e !== before.e && term === before.e && count < before.w) {
      this.#isBack = true;
      this.#isSuspect = true;
    }
    this.#received = message;
    for (const [, version] of message.h ?? []) this.#noteVersion(version);
    for (const [, version] of message.k ?? []) this.#noteVersion(version);
  }

  /** Requests a check, because something does not belong to the history. */
  suspect(): void {
    this.#isSuspect = true;
  }

  /** Runs a requested check. To be called periodically. */
  async lookAgain(sql: Sql): Promise<void> {
    if (this.#isSuspect && monotonicMs() - this.#lookedAtMs > LOOK_AGAIN_MS) await this.look(sql);
  }

  /** Queries the primary; a failed query is repeated. */
  async look(sql: Sql): Promise<void> {
    this.#isSuspect = true;
    if (this.#looking) return;
    this.#looking = true;
    this.#isSuspect = false;
    try {
      await this.#look(sql);
    } catch {
      this.#isSuspect = true;
    } finally {
      this.#looking = false;
      this.#lookedAtMs = monotonicMs();
    }
  }

  async #look(sql: Sql): Promise<void> {
    const received = this.#received;
    let position = await readPosition(sql);
    const goesOn = position.history === this.#history;
    const isBack = goesOn && (this.#isBack || (received !== undefined && isBefore(position, received)));
    const fault = position.fault ?? (isBack ? 'it has lost announced changes' : null);
    if (fault !== null) {
      await beginHistory(sql, position.history, fault, this.#largestVersion);
      position = await readPosition(sql);
    }
    if (position.history !== this.#history) this.#follow(position);
  }

  #follow(position: HistoryPosition): void {
    const { secret, onHistory, metrics, events } = this.#options;
    this.#history = position.history;
    this.#received = undefined;
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
