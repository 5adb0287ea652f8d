import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import type { Source } from '../common/source.ts';
import type { Header } from './csv.ts';
import { readRows } from './records.ts';

/**
 * Reports the faults of the rejected lines of a source, and writes the lines verbatim, in the order of the source, to a file below the
 * header row of CSV. There they can be corrected and imported. Of a line that is too long only the first MiB is written. The file
 * replaces that of an earlier import, or a symbolic link, at once, and only its owner may read it. Returns its path, or undefined if no
 * line was rejected: there is no file then. Throws a `Failure` if that fails, when all faults are reported.
 */
export async function replaceRejected(
  transaction: TransactionSql,
  source: Source,
  header: Header | undefined,
  report: (fault: string) => void,
): Promise<string | undefined> {
  const path = `${source.name}.rejected.${header ? 'csv' : 'ndjson'}`;
  const unfinished = join(dirname(path), `.rejected-${randomBytes(8).toString('hex')}`);
  async function* rejected(): AsyncGenerator<{ line: number; fault: string }, undefined> {
    const found = transaction<{ line: number; fault: string }[]>`
      select line::float8, fault from staged where fault is not null order by line`;
    for await (const rows of found.cursor(1_000)) yield* rows;
  }
  const faults = rejected();
  let { value: next } = await faults.next();
  const reportNext = async () => {
    report(`line ${next!.line}: ${next!.fault}`);
    next = (await faults.next()).value;
  };
  async function* lines(): AsyncGenerator<Buffer | string> {
    if (header) yield `${header.text}\n`;
    for await (const rows of readRows(source, header))
      for (const { number, bytes } of rows) {
        if (number !== next?.line) continue;
        await reportNext();
        yield bytes;
        yield '\n';
      }
  }
  try {
    if (!next) return void (await rm(path, { force: true }));
    await pipeline(lines, createWriteStream(unfinished, { flags: 'wx', mode: 0o600 }));
    await rename(unfinished, path);
    return path;
  } catch (error) {
    while (next) await reportNext();
    await rm(unfinished, { force: true });
    throw new Failure(
      `cannot write the rejected lines to ${path}: ${(error as Error).message}. Nothing was imported. ` +
        'Free space or allow writing there, and run the same command again.',
    );
  } finally {
    // an open cursor would block the connection
    await faults.return(undefined);
  }
}
