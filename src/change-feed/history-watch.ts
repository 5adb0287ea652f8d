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

/** The database is asked again after so long: messages that others forge, and a server that fails, do not make it many times. */
const LOOK_AGAIN_MS = 1_000;

export interface HistoryOptions {
  /** the history that the instance follows */
  history: string;
  /** of that history; replaced with it */
  secret: MacSecret;
  /** the database follows another history: nothing that is cached is true there */
  onHistory: (position: HistoryPosition) => void;
  metrics: Metrics;
  events: Events;
}

/**
 * Knows which history of the database the instance follows, and looks whether the database still does: after each
 * connect, and upon a message that does not belong to it. Where the database has gone back, another history begins.
 */
export class HistoryWatch {
  readonly #options: HistoryOptions;
  #history: string;
  /** the last message of the history */
  #received: FeedMessage | undefined;
  #looking = false;
  #lookedAtMs = -Infinity;
  #isSuspect = false;
  /** no version that was heard of is larger, in whatever history */
  #largestVersion = 0;
  /** a message went on from before what was heard */
  #isBack = false;

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.#history = options.history;
  }

  /** What a term of this instance must not begin before. */
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

  /** Something does not belong to the history: the database is asked soon. */
  suspect(): void {
    this.#isSuspect = true;
  }

  /** To be called now and then: asks where there is doubt. */
  async lookAgain(sql: Sql): Promise<void> {
    if (this.#isSuspect && monotonicMs() - this.#lookedAtMs > LOOK_AGAIN_MS) await this.look(sql);
  }

  /** Asks the database on a connection to the primary. What fails is tried again. */
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
    const fault = position.fault ?? (isBack ? 'it has lost what was told' : null);
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
    metrics.historyChanged();
    events.historyChanged(position.history, position.reason);
    onHistory(position);
  }

  #noteVersion(version: number): void {
    if (version > this.#largestVersion) this.#largestVersion = version;
  }
}
