import { randomBytes } from 'node:crypto';
import type { Sql } from 'postgres';
import { completed } from '../postgres/connect.ts';

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
