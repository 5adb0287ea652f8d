import { randomBytes } from 'node:crypto';
import type { Sql } from 'postgres';
import { completed } from '../postgres/connect.ts';
import type { FeedMessage } from './messages.ts';

/** Position of the change feed in the database's history; see sql/005-history.sql. */
export interface HistoryPosition {
  /** name of the history; no copy, dump or promoted replica of the database continues it */
  history: string;
  /** reason of its beginning */
  reason: string;
  /** generation of the keys in Redis */
  generation: string;
  /** the last term that announced changes, its number in the history, and its count of announcements */
  term: string;
  number: number;
  count: number;
  /** secret of the history, which is never logged */
  secret: Uint8Array;
  /** reason why a new history must begin; null: the database continues the present one */
  fault: string | null;
}

/** Last received position: the largest version of any history, and the position in the present one. */
export type ReceivedPosition = { version: number } & Pick<
  HistoryPosition,
  'history' | 'number' | 'term' | 'count'
>;

/** Position of an instance that has received nothing. */
export const NOTHING_RECEIVED: ReceivedPosition = { version: 0, history: '', number: 0, term: '', count: 0 };

/** Draws a random name that is never used twice. */
export function drawGeneration(): string {
  return randomBytes(9).toString('base64url');
}

/** Reads the position from the primary. */
export async function readPosition(sql: Sql): Promise<HistoryPosition> {
  const [position] = completed(
    await sql<HistoryPosition[]>`
      select history, reason, generation, term, number::float8 as number, count::float8 as count, secret, fault
      from hotel_api_position()`,
  );
  if (!position)
    throw new Error(
      'the position of the change feed is missing in hotel_api_feed_position or hotel_api_secrets',
    );
  return position;
}

/**
 * Returns true if the database is before the position of this message, which it announced: it has gone back.
 * `hotel_api_begin_term` compares in the same way.
 */
export function isBefore(
  { number, term, count }: Pick<HistoryPosition, 'number' | 'term' | 'count'>,
  { o, e, w }: Pick<FeedMessage, 'o' | 'e' | 'w'>,
): boolean {
  return number < o || (number === o && (term !== e || count < w));
}

/**
 * Begins a new history unless `ended` is no longer the present one. Versions continue above `received`. Throws on a
 * replica.
 */
export async function beginHistory(sql: Sql, ended: string, why: string, received: number): Promise<void> {
  completed(
    await sql`select hotel_api_begin_history(${ended}, ${why}, ${Math.ceil(received)}::float8::bigint)`,
  );
}
