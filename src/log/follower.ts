import type { Sql } from 'postgres';
import { monotonicMs, pause, random } from '../lib/clock.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import { retryAfterMs } from '../postgres/connect.ts';
import { BUSY_POLL_MS, POLL_MS } from './freshness.ts';
import {
  type HistoryStart,
  LogConnection,
  type LogCursor,
  type LogRow,
  MAX_LOG_ROWS,
  type Poll,
} from './log-connection.ts';

/** Rows of the log in one message to the workers, each of up to 1000 ids. */
const PIECE_ROWS = 5;
/** Pause between two reads of the log backwards. */
const LEARN_EVERY_MS = 5;
/** Reasons of one outage that are logged, each once: the first is often that of the connection which the outage ended. */
const MAX_REASONS = 5;

/** What has become known of the log. */
export interface News {
  rows: LogRow[];
  /** the cursor that is reached with `rows`; undefined: more rows are to come */
  cursor: LogCursor | undefined;
  /** ids of a bulk change, or of midnight, are still to be listed for mirrors */
  isListing: boolean;
  /** the instance is current as of this time, by `monotonicMs`; undefined: it is not known to be */
  asOfMs: number | undefined;
}

/** What an instance notices of the log. Its processes handle it, each after the ones before. */
export type LogEvent =
  /** another history: everything cached is invalid. `server`: see `SERVER` */
  | ({ type: 'history'; server: string } & HistoryStart)
  /** the server was restarted and goes on with the same history: names in Redis have another prefix */
  | { type: 'restarted'; server: string }
  | ({ type: 'news' } & News)
  /** rows from before the cursor at which the instance began; everything after `floor` is known then */
  | { type: 'learned'; rows: LogRow[]; floor: number }
  /** PostgreSQL answers again */
  | { type: 'reachable' };

interface FollowerOptions {
  /** opens a pool of one connection */
  open: () => Sql;
  onEvent: (event: LogEvent) => void;
  /** maximum age in ms of what may be cached outside of this process */
  maxAgeMs: number;
  metrics: Metrics;
  events: Events;
}

/**
 * Follows the log for one instance: polls it, calls the sequencer when something has committed, and detects that the
 * database follows another history or has gone back. Any number of instances do the same; none is distinguished.
 */
export class LogFollower {
  readonly #options: FollowerOptions;
  readonly #stopping = new AbortController();
  readonly #started = Promise.withResolvers<void>();
  #connection: LogConnection;
  #history: string | undefined;
  #server = '';
  /** the last applied cursor */
  #cursor: LogCursor | undefined;
  /** the cursor at which it began, while the log from before is worth learning */
  #beginning: LogCursor | undefined;
  /** everything that had committed by this time is applied */
  #asOfMs: number | undefined;
  /** why it could not be followed since it last could */
  readonly #reasons = new Set<string>();
  #done: Promise<void> | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#connection = this.#open();
  }

  /** Begins to follow. Resolves when the first history is known. */
  start(): Promise<void> {
    this.#done = this.#run();
    return this.#started.promise;
  }

  /** Uses a new connection, to the present address. */
  reopen(): void {
    const old = this.#connection;
    this.#connection = this.#open();
    old.end().catch(() => {});
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#connection.end().catch(() => {});
    await this.#done;
  }

  #open(): LogConnection {
    return new LogConnection(this.#options.open());
  }

  async #run(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const connection = this.#connection;
      let pauseMs = POLL_MS * (0.8 + 0.4 * random());
      try {
        let poll = await connection.poll(this.#cursor);
        this.#reached();
        // after a restart or promotion, server, database or timeline may be another: the sequencer compares them
        if (poll.isDue || (this.#cursor && poll.server !== this.#server)) {
          poll = await connection.sequenceAndPoll(this.#cursor);
          this.#options.metrics.logSequenced.inc();
          pauseMs = BUSY_POLL_MS;
        }
        if (poll.isCut) pauseMs = 0;
        await this.#apply(connection, poll);
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        this.#failed(error as Error);
        // a connection that failed or is late is not used again: its answers would be those of earlier polls
        if (connection === this.#connection) this.reopen();
        pauseMs = retryAfterMs();
      }
      await pause(pauseMs, this.#stopping.signal);
    }
  }

  async #apply(connection: LogConnection, poll: Poll): Promise<void> {
    // it was replaced meanwhile: the answer may be from before a sleep of the machine, or of another address
    if (connection !== this.#connection) return;
    const { metrics } = this.#options;
    if (poll.history !== this.#history || poll.isContinued === null) {
      await this.#begin(connection, poll);
      return;
    }
    if (!poll.isContinued) {
      await connection.beginHistory(this.#history, this.#cursor!);
      return;
    }
    if (poll.server !== this.#server) {
      this.#server = poll.server;
      this.#options.onEvent({ type: 'restarted', server: poll.server });
    }
    // what is known from before it is covered no longer
    if (poll.rows.some(isOfAnything)) this.#beginning = undefined;
    const { cursor, asOfMs } = poll;
    this.#cursor = cursor;
    // its changes were not known as of the last time
    if (poll.rows.length > 0 && this.#asOfMs !== undefined)
      metrics.freshnessLag.observe((monotonicMs() - this.#asOfMs) / 1000);
    for (const { kind, ids } of poll.rows) metrics.logChanges.inc({ kind }, Math.max(1, ids.length));
    this.#asOfMs = asOfMs ?? this.#asOfMs;
    const isListing = poll.isDue && !poll.isUnread;
    // each piece is one message to every worker, which answers requests in between
    for (let from = 0; from === 0 || from < poll.rows.length; from += PIECE_ROWS) {
      const rows = poll.rows.slice(from, from + PIECE_ROWS);
      const isLast = from + PIECE_ROWS >= poll.rows.length;
      const reached = { cursor: isLast ? cursor : undefined, asOfMs: isLast ? asOfMs : undefined };
      this.#options.onEvent({ type: 'news', rows, isListing, ...reached });
    }
  }

  async #begin(connection: LogConnection, poll: Poll): Promise<void> {
    // A copied or restored database begins a history of its own before anything is read from it. The history that it shows
    // until then may be one that was followed before: Redis has values of a future that the copy lacks. The first poll of
    // all compares server, database and timeline, later ones leave that to the sequencer.
    if (poll.isDue || this.#history !== undefined) await connection.sequenceAndPoll(undefined);
    const start = await connection.historyStart();
    if (this.#history !== undefined && this.#history !== start.history) {
      this.#options.metrics.historyChanges.inc();
      this.#options.events.historyChanged(start.history);
    }
    this.#history = start.history;
    this.#server = poll.server;
    this.#cursor = { position: start.position, transaction: start.transaction };
    this.#beginning = this.#cursor;
    this.#asOfMs = undefined;
    this.#options.onEvent({ type: 'history', server: poll.server, ...start });
    this.#started.resolve();
    void this.#learn(this.#cursor);
  }

  /** Reads the log backwards from a beginning, as far as anything that is cached elsewhere may be old. */
  async #learn(beginning: LogCursor): Promise<void> {
    const { onEvent, maxAgeMs } = this.#options;
    for (let { position } = beginning; !this.#stopping.signal.aborted; ) {
      try {
        const { rows, deletedTo } = await this.#connection.rowsBefore(position);
        // it has begun anew, and what has changed between the cursors is not known; or anything has changed since
        if (beginning !== this.#beginning) return;
        const end = rows.findIndex((row) => isOfAnything(row) || row.ageMs > maxAgeMs);
        const last = rows.length === MAX_LOG_ROWS ? rows.at(-1) : undefined;
        const before = last ? last.position - Math.max(1, last.ids.length) : deletedTo;
        const floor = rows[end]?.position ?? before;
        onEvent({ type: 'learned', rows: end < 0 ? rows : rows.slice(0, end), floor });
        if (end >= 0 || !last) return;
        position = floor;
        await pause(LEARN_EVERY_MS);
      } catch {
        // the connection was replaced, or the server does not answer at the moment
        await pause(retryAfterMs());
        if (beginning !== this.#beginning) return;
      }
    }
  }

  #reached(): void {
    if (this.#reasons.size === 0) return;
    this.#reasons.clear();
    this.#options.events.logFollowed();
    this.#options.onEvent({ type: 'reachable' });
  }

  #failed({ message }: Error): void {
    this.#options.metrics.logFailures.inc();
    if (this.#reasons.has(message) || this.#reasons.size === MAX_REASONS) return;
    this.#reasons.add(message);
    this.#options.events.logNotFollowed(message);
  }
}

/** Returns true for a row by which anything of a kind may have changed. */
function isOfAnything({ kind }: LogRow): boolean {
  return kind.startsWith('all_');
}
