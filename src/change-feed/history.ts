import { randomBytes } from 'node:crypto';
import type { Sql } from 'postgres';
import { completed } from '../postgres/connect.ts';
import type { FeedMessage } from './messages.ts';

/** Where the change feed stands in the history that the database follows: see 005-history.sql. */
export interface HistoryPosition {
  /** its name; no copy of the database, no dump and no promoted replica goes on with the same */
  history: string;
  /** why it began */
  reason: string;
  /** of the keys in Redis */
  generation: string;
  /** the last term that told something, which one of the history it was, and how many messages it had told */
  term: string;
  number: number;
  count: number;
  /** of this history: never to be logged */
  secret: Uint8Array;
  /** why another history must begin; null: the database goes on from where it was */
  fault: string | null;
}

/** What an instance heard last: of no version a larger one, and of the history its position. */
export type ReceivedPosition = { version: number } & Pick<
  HistoryPosition,
  'history' | 'number' | 'term' | 'count'
>;

/** What an instance has heard that knows of nothing. */
export const NOTHING_RECEIVED: ReceivedPosition = { version: 0, history: '', number: 0, term: '', count: 0 };

/** What is found under it was written by nobody else. */
export function drawGeneration(): string {
  return randomBytes(9).toString('base64url');
}

/** Asks the primary. */
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

/** True where the database is at a position before this message, which it told: it has gone back. */
export function isBefore({ number, term, count }: HistoryPosition, { o, e, w }: FeedMessage): boolean {
  return number < o || (number === o && (term !== e || count < w));
}

/**
 * Has another history begin, unless `ended` is no longer the present one; versions go on above `heard`. Throws where the
 * server is a replica.
 */
export async function beginHistory(sql: Sql, ended: string, why: string, received: number): Promise<void> {
  completed(
    await sql`select hotel_api_begin_history(${ended}, ${why}, ${Math.ceil(received)}::float8::bigint)`,
  );
}
