import type { Sql } from 'postgres';
import { monotonicMs, systemMs } from '../lib/clock.ts';
import { Continuity } from './continuity.ts';
import type { HistoryPosition, ReceivedPosition } from './history.ts';
import { type HistoryOptions, HistoryWatch } from './history-watch.ts';
import type { FeedMessage } from './messages.ts';
import { readPayload } from './payload.ts';
import { FEED_CHANNEL } from './term.ts';

/** On this channel an instance asks the active invalidator for a message. */
export const REQUEST_CHANNEL = 'hotel_api_feed_request';
/** Without a message for this long the link counts as lost: heartbeats come every 500 ms. */
export const MAX_SILENCE_MS = 1_500;
/** A link that stays silent is opened anew: a half-open one would never say that it is dead. */
const REOPEN_MS = 3_000;
/** The same for one that never came about: postgres.js gives a LISTEN up whose connection fails. */
const REOPEN_UNRECEIVED_MS = 1_000;
/** A login that forges messages does not fill the log. */
const REPORT_REJECTED_EVERY_MS = 60_000;

/** The clock is looked at this often. */
const CHECK_EVERY_MS = 250;
/**
 * A process that stood still for longer reads messages from before it did. They would count as signs of life from now, so
 * the connection is opened anew: what comes on that one was sent afterwards.
 */
const STALL_MS = 1_500;

export interface ListenerOptions extends HistoryOptions {
  open: () => Sql;
  /** an instance waits for a message */
  onRequest: () => void;
  /** `heardAtMs`: by the clock of the system */
  onMessage: (message: FeedMessage, receivedAtMs: number) => void;
  /**
   * something may have been told that was not heard: whoever caches must start anew. After a reconnect the first message
   * says whether it was, and this is told before it; what is served until then is bounded as it is while nothing is heard.
   */
  onReset: () => void;
  /** the connection was lost and stands again */
  onReconnect: () => void;
}

/** Hears the change feed for one instance, and notices when it can no longer be sure of having heard all. */
export class Listener {
  readonly #options: ListenerOptions;
  #sql: Sql;
  readonly #history: HistoryWatch;
  #continuity = new Continuity();
  #receivedAtMs = -Infinity;
  #openedAtMs = 0;
  #silent = true;
  #listening = false;
  #connected = false;
  #rejectsQuietlyUntilMs = -Infinity;
  #lookedAtClockMs = monotonicMs();
  readonly #watch: NodeJS.Timeout;
  /** the last sign of life in Redis that was told of */
  lastMarker: string | null = null;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#history = new HistoryWatch({ ...options, onHistory: (position) => this.#follow(position) });
    this.#sql = this.#open();
    this.#watch = setInterval(() => this.#lookAtClock(), CHECK_EVERY_MS);
  }

  /** What a term of this instance must not begin before. */
  get lastReceived(): ReceivedPosition {
    return this.#history.lastReceived;
  }

  /** True while messages come, on the connection that stands. */
  get isUp(): boolean {
    return !this.#silent && this.#continuity.unbroken;
  }

  async stop(): Promise<void> {
    clearInterval(this.#watch);
    await this.#sql.end({ timeout: 1 });
  }

  #open(): Sql {
    const sql = this.#options.open();
    this.#openedAtMs = monotonicMs();
    this.#listening = false;
    const ignore = () => {};
    const listened = () => {
      if (sql !== this.#sql) return;
      this.#listening = true;
      this.#openedAtMs = monotonicMs();
      this.#continuity.breakOff();
      if (this.#connected) this.#options.onReconnect();
      this.#connected = true;
      this.#askToSpeak();
      void this.#history.look(sql);
    };
    sql.listen(REQUEST_CHANNEL, () => this.#options.onRequest()).catch(ignore);
    sql
      .listen(FEED_CHANNEL, (payload) => sql === this.#sql && this.#receive(payload), listened)
      .catch(ignore);
    return sql;
  }

  #receive(payload: string): void {
    if (this.#stalled()) return;
    const message = readPayload(payload, this.#options.secret);
    if (message === 'malformed') {
      this.#continuity.breakOff();
      return;
    }
    if (message === 'unsigned' || this.#continuity.hasReceived(message)) {
      this.#reject();
      return;
    }
    this.#history.received(message);
    const { unbroken } = this.#continuity;
    const complete = this.#continuity.receive(message);
    if (this.#receivedAtMs > -Infinity) this.#dispatch(complete, unbroken);
    if (!complete) this.#options.onReset();
    this.#receivedAtMs = monotonicMs();
    this.lastMarker = message.b;
    if (this.#silent) this.#options.events.feed('connected');
    this.#silent = false;
    this.#options.onMessage(message, systemMs());
  }

  /** True where this process has stood still; then the connection is opened anew, and what came on this one is not heard. */
  #stalled(): boolean {
    const nowMs = monotonicMs();
    const stoodStill = nowMs - this.#lookedAtClockMs > STALL_MS;
    this.#lookedAtClockMs = Math.max(this.#lookedAtClockMs, stoodStill ? nowMs : -Infinity);
    if (stoodStill) this.reopen();
    return stoodStill;
  }

  #follow(position: HistoryPosition): void {
    this.#continuity = new Continuity();
    this.lastMarker = null;
    this.#options.onHistory(position);
    this.#askToSpeak();
  }

  #askToSpeak(): void {
    this.#sql.notify(REQUEST_CHANNEL, '').catch(() => {});
  }

  /** Another login has sent it, or the history is another. A message that was lost on its way is missed by the number of the next. */
  #reject(): void {
    this.#history.suspect();
    this.#options.metrics.feedMessageRejected();
    if (monotonicMs() < this.#rejectsQuietlyUntilMs) return;
    this.#rejectsQuietlyUntilMs = monotonicMs() + REPORT_REJECTED_EVERY_MS;
    this.#options.events.feedMessageRejected();
  }

  #dispatch(complete: boolean, unbroken: boolean): void {
    const { events } = this.#options;
    if (!unbroken) events.feed(complete ? 'resumed' : 'reconnected');
    else if (!complete) events.feed('gap');
  }

  #lookAtClock(): void {
    if (this.#stalled()) return;
    const nowMs = monotonicMs();
    this.#lookedAtClockMs = nowMs;
    void this.#history.lookAgain(this.#sql);
    if (nowMs - this.#receivedAtMs > MAX_SILENCE_MS && !this.#silent) {
      this.#silent = true;
      this.#options.events.feed('silent');
    }
    const timeoutMs = this.#listening ? REOPEN_MS : REOPEN_UNRECEIVED_MS;
    if (nowMs - Math.max(this.#receivedAtMs, this.#openedAtMs) > timeoutMs) this.reopen();
  }

  /** Messages from before now are heard no more: they would count as signs of life. */
  reopen(): void {
    const old = this.#sql;
    this.#continuity.breakOff();
    this.#sql = this.#open();
    old.end({ timeout: 0 }).catch(() => {});
  }
}
