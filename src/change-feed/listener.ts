import type { Sql } from 'postgres';
import { monotonicMs, systemMs } from '../lib/clock.ts';
import { Continuity } from './continuity.ts';
import { type HistoryOptions, type HistoryPosition, HistoryWatch, type ReceivedPosition } from './history.ts';
import type { FeedMessage } from './messages.ts';
import { readPayload } from './payload.ts';
import { FEED_CHANNEL } from './term.ts';

/** Channel on which an instance requests a message from the active invalidator. */
export const REQUEST_CHANNEL = 'hotel_api_feed_request';
/** Maximum silence of a working feed; heartbeats arrive every 500 ms. */
export const MAX_SILENCE_MS = 1_500;
/**
 * Silence after which the connection is reopened: a half-open connection never reports that it is dead. Opening one takes
 * eight round trips with TLS, so a shorter time would never let a distant feed begin.
 */
const REOPEN_MS = 3_000;
/** The same for a connection that failed: postgres.js drops its LISTEN. */
const REOPEN_FAILED_MS = 1_000;
/** Minimum interval between log lines about rejected messages. */
const REPORT_REJECTED_EVERY_MS = 60_000;

/** Interval of the clock's checks. */
const CHECK_EVERY_MS = 250;
/**
 * Stall after which the connection is reopened. A stalled process reads messages that are older than they seem;
 * messages of a new connection were sent afterwards.
 */
const STALL_MS = 1_500;

export interface ListenerOptions extends HistoryOptions {
  open: () => Sql;
  /** an instance waits for a message */
  onRequest: () => void;
  /** `receivedAtMs`: by `systemMs` */
  onMessage: (message: FeedMessage, receivedAtMs: number) => void;
  /**
   * announced changes may have been missed, so every cache must be marked stale. After a reconnect the first message
   * decides it, and this is called before that message. Until then responses are bounded as during a silence.
   */
  onReset: () => void;
  /** the connection was lost and works again */
  onReconnect: () => void;
}

/** Receives the change feed for one instance, and detects possible losses. */
export class Listener {
  readonly #options: ListenerOptions;
  #sql: Sql;
  readonly #history: HistoryWatch;
  #continuity = new Continuity();
  #receivedAtMs = -Infinity;
  #openedAtMs = 0;
  #silent = true;
  #failed = false;
  #connected = false;
  #rejectsQuietlyUntilMs = -Infinity;
  #clockCheckedAtMs = monotonicMs();
  readonly #watch: NodeJS.Timeout;
  /** the last announced write marker */
  lastMarker: string | null = null;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#history = new HistoryWatch({ ...options, onHistory: (position) => this.#follow(position) });
    this.#sql = this.#open();
    this.#watch = setInterval(() => this.#checkClock(), CHECK_EVERY_MS);
  }

  /** Returns the position before which no term of this instance may begin. */
  get lastReceived(): ReceivedPosition {
    return this.#history.lastReceived;
  }

  /** Returns true while messages arrive on the present connection. */
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
    this.#failed = false;
    const failed = () => {
      if (sql === this.#sql) this.#failed = true;
    };
    const listened = () => {
      if (sql !== this.#sql) return;
      this.#failed = false;
      this.#openedAtMs = monotonicMs();
      this.#continuity.breakOff();
      if (this.#connected) this.#options.onReconnect();
      this.#connected = true;
      this.#requestHeartbeat();
      void this.#history.check(sql);
    };
    sql.listen(REQUEST_CHANNEL, () => this.#options.onRequest()).catch(failed);
    sql
      .listen(FEED_CHANNEL, (payload) => sql === this.#sql && this.#receive(payload), listened)
      .catch(failed);
    return sql;
  }

  #receive(payload: string): void {
    // before the check, because a stop of this process between the two would make the message seem new
    const [nowMs, receivedAtMs] = [monotonicMs(), systemMs()];
    if (this.#stalled()) return;
    const { secret, events, onReset, onMessage } = this.#options;
    const message = readPayload(payload, secret);
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
    if (this.#receivedAtMs > -Infinity) {
      if (!unbroken) events.feed(complete ? 'resumed' : 'reconnected');
      else if (!complete) events.feed('gap');
    }
    if (!complete) onReset();
    this.#receivedAtMs = nowMs;
    this.lastMarker = message.b;
    if (this.#silent) events.feed('connected');
    this.#silent = false;
    onMessage(message, receivedAtMs);
  }

  /** Returns true after a stall of this process. The connection is then reopened, and its messages are ignored. */
  #stalled(): boolean {
    const nowMs = monotonicMs();
    if (nowMs - this.#clockCheckedAtMs <= STALL_MS) return false;
    this.#clockCheckedAtMs = nowMs;
    this.reopen();
    return true;
  }

  #follow(position: HistoryPosition): void {
    this.#continuity = new Continuity();
    this.lastMarker = null;
    this.#options.onHistory(position);
    this.#requestHeartbeat();
  }

  #requestHeartbeat(): void {
    this.#sql.notify(REQUEST_CHANNEL, '').catch(() => {});
  }

  /** Rejects a message of another login or another history. A lost message is detected by the number of the next. */
  #reject(): void {
    this.#history.suspect();
    this.#options.metrics.feedMessagesRejected.inc();
    if (monotonicMs() < this.#rejectsQuietlyUntilMs) return;
    this.#rejectsQuietlyUntilMs = monotonicMs() + REPORT_REJECTED_EVERY_MS;
    this.#options.events.feedMessageRejected();
  }

  #checkClock(): void {
    if (this.#stalled()) return;
    const nowMs = monotonicMs();
    this.#clockCheckedAtMs = nowMs;
    void this.#history.checkIfSuspect(this.#sql);
    if (nowMs - this.#receivedAtMs > MAX_SILENCE_MS && !this.#silent) {
      this.#silent = true;
      this.#options.events.feed('silent');
    }
    const timeoutMs = this.#failed ? REOPEN_FAILED_MS : REOPEN_MS;
    if (nowMs - Math.max(this.#receivedAtMs, this.#openedAtMs) > timeoutMs) this.reopen();
  }

  /** Ignores messages from before now, whose age is unknown. */
  reopen(): void {
    const old = this.#sql;
    this.#continuity.breakOff();
    this.#sql = this.#open();
    old.end({ timeout: 0 }).catch(() => {});
  }
}
