import { randomBytes } from 'node:crypto';
import type { Sql } from 'postgres';
import { monotonicMs } from '../lib/clock.ts';
import type { MacSecret } from '../lib/mac.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import { completed } from '../postgres/connect.ts';
import type { FeedMessage } from './messages.ts';

/** Minimum interval between queries, however many forged messages or failures request them. */
const MIN_CHECK_INTERVAL_MS = 1_000;

/** Position of the change feed in the database's history; see sql/005-history.sql. */
export interface HistoryPosition {
  /** name of the history; no copy, dump or promoted replica of the database continues it */
  history: string;
  /** reason of its beginning */
  reason: string;
  /** generation of the keys in Redis */
  generation: string;
  /** the last term that announced changes, its number, and its count of announcements */
  term: string;
  number: number;
  count: number;
  /** secret of the history, which is never logged */
  secret: Uint8Array;
  /** reason why a new history must begin; null: the database continues the present one */
  fault: string | null;
}

/** How far a database has come. Numbers go on from one history to the next, so they order all terms of a database. */
export type Progress = Pick<HistoryPosition, 'history' | 'number' | 'term' | 'count'>;

/** Last progress that an instance knows, and the largest version that it received in any history. */
export type ReceivedPosition = { version: number } & Progress;

/** Draws a random name that is never used twice. */
export function drawGeneration(): string {
  return randomBytes(9).toString('base64url');
}

/** Reads the position from the primary. */
export async function readPosition(sql: Sql): Promise<HistoryPosition> {
  const [position] = completed(
    await sql<(Omit<HistoryPosition, 'secret'> & { secret: string })[]>`
      select history, reason, generation, term, number::float8 as number, count::float8 as count,
        encode(secret, 'hex') as secret, fault
      from hotel_api_position()`,
  );
  if (!position)
    throw new Error(
      'the position of the change feed is missing in hotel_api_feed_position or hotel_api_secrets',
    );
  return { ...position, secret: Buffer.from(position.secret, 'hex') };
}

/**
 * Returns true if the database is behind what an instance knows of it: it has gone back, perhaps to an earlier history.
 * `hotel_api_begin_term` compares in the same way.
 */
export function isBefore({ history, number, term, count }: Progress, known: Progress): boolean {
  if (number !== known.number) return number < known.number;
  return history !== known.history || term !== known.term || count < known.count;
}

/**
 * Begins a new history unless `ended` is no longer the present one. Versions and numbers continue above those of
 * `received`. Throws on a replica.
 */
export async function beginHistory(
  sql: Sql,
  ended: string,
  why: string,
  { version, number }: ReceivedPosition,
): Promise<void> {
  completed(
    await sql`select hotel_api_begin_history(
      ${ended}, ${why}, ${Math.ceil(version)}::float8::bigint, ${number}::float8::bigint
    )`,
  );
}

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
    secret.use(position.secret);
    this.#progress = progressOf(position);
    this.#isBack = false;
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
