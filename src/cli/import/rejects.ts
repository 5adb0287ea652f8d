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
 * Reports the faults of the rejected lines of a source, then writes the lines verbatim, in the order of the source, to a file below the
 * header row of CSV. There they can be corrected and imported. Of a line that is too long only the first MiB is written. The file
 * replaces that of an earlier import, or a symbolic link, at once, and only its owner may read it. Returns its path, or undefined if no
 * line was rejected: there is no file then. Throws a `Failure` if that fails.
 */
export async function replaceRejected(
  transaction: TransactionSql,
  source: Source,
  header: Header | undefined,
  report: (fault: string) => void,
): Promise<string | undefined> {
  const path = `${source.name}.rejected.${header ? 'csv' : 'ndjson'}`;
  const unfinished = join(dirname(path), `.rejected-${randomBytes(8).toString('hex')}`);
  const numbers: number[] = [];
  const rejected = transaction<{ line: number; fault: string }[]>`
    select line::float8, fault from staged where fault is not null order by line`;
  for await (const rows of rejected.cursor(1_000))
    for (const { line, fault } of rows) {
      report(`line ${line}: ${fault}`);
      numbers.push(line);
    }
  async function* lines(): AsyncGenerator<Buffer | string> {
    if (header) yield `${header.text}\n`;
    let next = 0;
    for await (const rows of readRows(source, header))
      for (const { number, bytes } of rows) {
        if (number !== numbers[next]) continue;
        next++;
        yield bytes;
        yield '\n';
      }
  }
  try {
    if (numbers.length === 0) return void (await rm(path, { force: true }));
    await pipeline(lines, createWriteStream(unfinished, { flags: 'wx', mode: 0o600 }));
    await rename(unfinished, path);
    return path;
  } catch (error) {
    await rm(unfinished, { force: true });
    throw new Failure(
      `cannot write the rejected lines to ${path}: ${(error as Error).message}. Nothing was imported. ` +
        'Free space or allow writing there, and run the same command again.',
    );
  }
}
