import { pipeline } from 'node:stream/promises';
import type { TransactionSql } from 'postgres';

/** Runs a `copy … from stdin` that takes these rows. Rejects with the server's error, whenever that comes. */
export async function copyIn(
  transaction: TransactionSql,
  statement: string,
  rows: () => Generator<string> | AsyncGenerator<string>,
): Promise<void> {
  const query = transaction.unsafe(statement);
  const sink = await query.writable();
  const { promise: rejected, reject } = Promise.withResolvers<never>();
  // postgres.js 3.4 lets go of the stream when all is written: an error that comes then is told to the query alone,
  // which is resolved already, and the stream would wait for ever.
  Object.assign(query, { reject });
  await Promise.race([pipeline(rows, sink), rejected]);
}

/** A row in the text format of PostgreSQL's COPY, with its newline. Objects are written as JSON, null and undefined as null. */
export function copyRow(values: readonly unknown[]): string {
  return `${values.map(copyField).join('\t')}\n`;
}

function copyField(value: unknown): string {
  if (value === null || value === undefined) return '\\N';
  if (typeof value === 'string') return escapeText(value);
  return typeof value === 'object' ? escapeText(JSON.stringify(value)) : String(value);
}

const SPECIAL = /[\\\t\n\r]/;
const ESCAPES: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };

function escapeText(text: string): string {
  return SPECIAL.test(text) ? text.replace(/[\\\t\n\r]/g, (character) => ESCAPES[character]!) : text;
}
