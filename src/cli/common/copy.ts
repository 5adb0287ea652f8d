import { pipeline } from 'node:stream/promises';
import type { TransactionSql } from 'postgres';

/** Runs a `copy … from stdin` with these rows. Rejects with the server's error, however late it arrives. */
export async function copyIn(
  transaction: Pick<TransactionSql, 'unsafe'>,
  statement: string,
  rows: () => Generator<string> | AsyncGenerator<string>,
): Promise<void> {
  const query = transaction.unsafe(statement);
  const sink = await query.writable();
  const { promise: rejected, reject } = Promise.withResolvers<never>();
  // postgres.js 3.4 detaches the stream when all is written: a later error only reaches the query, which is resolved
  // already, and the stream would wait forever
  Object.assign(query, { reject });
  await Promise.race([pipeline(rows, sink), rejected]);
}

/** Returns a row in the text format of COPY, with its newline. Objects become JSON; null and undefined become null. */
export function copyRow(values: readonly unknown[]): string {
  return `${values.map(copyField).join('\t')}\n`;
}

function copyField(value: unknown): string {
  if (value === null || value === undefined) return '\\N';
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  return text.replace(/[\\\t\n\r]/g, (character) => ESCAPES[character]!);
}

const ESCAPES: Record<string, string> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' };
