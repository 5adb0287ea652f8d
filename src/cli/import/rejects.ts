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

/** Returns the path of a file for rejected lines, such as `hotels.ndjson.rejected.ndjson`. */
const rejectedPath = (source: Source, ending: string) => `${source.name}.rejected.${ending}`;

/** Removes the files of rejected lines that an earlier import of this source left. */
export async function removeRejected(source: Source): Promise<void> {
  for (const path of ['ndjson', 'csv'].map((ending) => rejectedPath(source, ending))) {
    await rm(path, { force: true }).catch((error: Error) => {
      throw new Failure(
        `cannot remove ${path}, of an earlier import: ${error.message}. Nothing was imported.`,
      );
    });
  }
}

/**
 * Writes the rejected lines verbatim, in the order of the source, to a file below the header row of CSV, and returns its path.
 * There they can be corrected and imported. Of a line that is too long only the first MiB is written. The file replaces an
 * earlier one, or a symbolic link, at once, and only its owner may read it. Throws a `Failure` if that fails.
 */
export async function writeRejected(
  transaction: TransactionSql,
  source: Source,
  header: Header | undefined,
): Promise<string> {
  const path = rejectedPath(source, header ? 'csv' : 'ndjson');
  const rejected = await transaction`select line::float8 from staged where fault is not null`;
  const numbers = new Set(rejected.map(({ line }) => line));
  async function* lines(): AsyncGenerator<Buffer | string> {
    if (header) yield `${header.line.text}\n`;
    for await (const rows of readRows(source, header))
      for (const { number, bytes } of rows) {
        if (!numbers.has(number)) continue;
        yield bytes;
        yield '\n';
      }
  }
  const unfinished = join(dirname(path), `.rejected-${randomBytes(8).toString('hex')}`);
  try {
    await pipeline(lines, createWriteStream(unfinished, { flags: 'wx', mode: 0o600 }));
    await rename(unfinished, path);
    return path;
  } catch (error) {
    await rm(unfinished, { force: true });
    throw new Failure(
      `cannot write lines to ${path}: ${(error as Error).message}. Nothing was imported. ` +
        'Free space or allow writing there, and run the same command again.',
    );
  }
}
