import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import type { ByteRange } from './lines.ts';
import type { Source } from './source.ts';

/** Maximum size of the file of rejected lines. The source contains all of them. */
const LIMIT_BYTES = 256 * 1024 * 1024;

/** File for lines of a source. */
export interface KeptLines {
  /** fault of the lines, which is part of the file name: `hotels.ndjson.rejected.ndjson` */
  kind?: 'rejected' | 'unknown';
  name: string;
  header: string;
}

/** Returns the path of the file for rejected lines, which can be corrected there and imported. */
export function rejectedPath(source: Source, { kind = 'rejected', name }: Omit<KeptLines, 'header'>): string {
  return `${source.path}.${kind}.${name}`;
}

/** Removes the files of rejected lines that an earlier import of this source left. */
export async function removeRejected(source: Source): Promise<void> {
  for (const name of ['ndjson', 'csv']) {
    const path = rejectedPath(source, { name });
    await rm(path, { force: true }).catch((error: Error) => {
      throw new Failure(
        `cannot remove ${path}, of an earlier import: ${error.message}. Nothing was imported.`,
      );
    });
  }
}

/**
 * Writes the marked lines of the table verbatim, in the order of the source, to the file of rejected lines; CSV with its
 * header row. Returns the number of lines that did not fit. The file replaces an earlier one, or a symbolic link, at once,
 * and only its owner may read it. Throws a `Failure` if that fails.
 */
export async function writeRejected(
  sql: Sql | TransactionSql,
  table: string,
  source: Source,
  format: KeptLines,
  limitBytes = LIMIT_BYTES,
): Promise<number> {
  const path = rejectedPath(source, format);
  const ranges = await sql.unsafe<ByteRange[]>(
    `select starts_at as start, ends_at as "end" from ${table} where fault is not null order by line`,
  );
  let bytes = 0;
  const fitting = ranges.findIndex(({ start, end }) => {
    bytes += end - start + 1;
    return bytes > limitBytes;
  });
  const omitted = fitting === -1 ? [] : ranges.splice(fitting);
  async function* lines(): AsyncGenerator<Buffer | string> {
    if (format.header) yield format.header;
    if (ranges.length === 0) return;
    let at = ranges[0]!.start;
    let next = 0;
    for await (const piece of source.read(at)) {
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
    return omitted.length;
  } catch (error) {
    await rm(unfinished, { force: true });
    throw new Failure(
      `cannot write the ${format.kind ?? 'rejected'} lines to ${path}: ${(error as Error).message}. Nothing was imported. ` +
        'Free space or allow writing there, and run the same command again.',
    );
  }
}
