import { createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import type { TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import type { Source } from '../common/source.ts';
import type { Header } from './csv.ts';
import { readRows } from './records.ts';

/**
 * Removes the file of the lines that an earlier import of this source has rejected, or a symbolic link. Reports the faults of the
 * rejected lines, and writes the lines verbatim, in the order of the source, to a new file below the header row of CSV. There they
 * can be corrected and imported. Of a line that is too long only the first MiB is written. Only the owner may read the file.
 * Returns its path, or undefined if no line was rejected. Throws a `Failure` if that fails.
 */
export async function replaceRejected(
  transaction: TransactionSql,
  source: Source,
  header: Header | undefined,
  report: (fault: string) => void,
): Promise<string | undefined> {
  const path = `${source.name}.rejected.${header ? 'csv' : 'ndjson'}`;
  async function* rejected(): AsyncGenerator<{ line: number; fault: string }, undefined> {
    const found = transaction<{ line: number; fault: string }[]>`
      select line::float8, fault from staged where fault is not null order by line`;
    for await (const rows of found.cursor(1_000)) yield* rows;
  }
  const faults = rejected();
  try {
    await rm(path, { force: true });
    let { value: next } = await faults.next();
    if (!next) return undefined;
    async function* lines(): AsyncGenerator<Buffer | string> {
      if (header) yield `${header.text}\n`;
      for await (const rows of readRows(source, header))
        for (const { number, bytes } of rows) {
          if (number !== next?.line) continue;
          report(`line ${number}: ${next.fault}`);
          yield bytes;
          yield '\n';
          next = (await faults.next()).value;
        }
    }
    await pipeline(lines, createWriteStream(path, { flags: 'wx', mode: 0o600 }));
    return path;
  } catch (error) {
    throw new Failure(
      `cannot write the rejected lines to ${path}: ${(error as Error).message}. Nothing was imported.`,
    );
  } finally {
    // an open cursor would block the connection
    await faults.return(undefined);
  }
}
