import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { type ByteRange, LINE_LIMIT_BYTES } from '../common/lines.ts';
import type { Source } from '../common/source.ts';
import type { Header } from './csv.ts';

/** Returns the path of a file for rejected lines, such as `hotels.ndjson.rejected.ndjson`. */
const rejectedPath = (source: Source, ending: string) => `${source.path}.rejected.${ending}`;

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
 * Writes the rejected lines verbatim, in the order of the source, to a file below the header row of CSV, and returns its path. There
 * they can be corrected and imported. A line that is too long is cut, because a small compressed file may have a huge one. The file replaces an earlier one, or a symbolic link, at once, and only its owner may
 * read it. Throws a `Failure` if that fails.
 */
export async function writeRejected(
  transaction: TransactionSql,
  source: Source,
  header: Header | undefined,
): Promise<string> {
  const path = rejectedPath(source, header ? 'csv' : 'ndjson');
  const ranges = await transaction<ByteRange[]>`
    select starts_at as start, least(ends_at, starts_at + ${LINE_LIMIT_BYTES}) as "end" from staged where fault is not null order by line`;
  async function* lines(): AsyncGenerator<Buffer | string> {
    if (header) yield `${header.line.text}\n`;
    let at = 0;
    let next = 0;
    for await (const piece of source.read()) {
      const pieceEnd = at + piece.length;
      for (let range = ranges[next]; range && range.start < pieceEnd; range = ranges[next]) {
        const [from, to] = [Math.max(range.start, at), Math.min(range.end, pieceEnd)];
        if (from < to) yield piece.subarray(from - at, to - at);
        if (range.end > pieceEnd) break;
        yield '\n';
        next++;
      }
      if (next === ranges.length) return;
      at = pieceEnd;
    }
    // the last line may end with the file
    if (next < ranges.length) throw new Error(`${source.name} became shorter while it was imported`);
  }
  const unfinished = join(dirname(path), `.rejected-${randomBytes(8).toString('hex')}`);
  try {
    const file = await open(unfinished, 'wx', 0o600);
    await pipeline(lines, file.createWriteStream());
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
