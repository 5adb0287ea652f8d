import { randomBytes } from 'node:crypto';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import type { Stretch } from './lines.ts';
import type { Source } from './source.ts';

/** The file of rejected lines holds no more than this. Each of them stands in the source too. */
const LIMIT_BYTES = 256 * 1024 * 1024;

/** How lines of a source are kept in a file of their own. */
export interface KeptLines {
  /** `hotels.ndjson.rejected.ndjson`: what is wrong with the lines, and the ending of the file's name */
  kind?: 'rejected' | 'unknown';
  name: string;
  header: string;
}

/** The file that the rejected lines of a source go to: they can be corrected there and imported. */
export function rejectedPath(source: Source, { kind = 'rejected', name }: KeptLines): string {
  return `${source.path}.${kind}.${name}`;
}

/**
 * Writes the lines that are marked in the table, verbatim and in the order of the source, to the file of rejected
 * lines; CSV with its header row. Returns how many did not fit. The file appears whole, in the place of an earlier one or of
 * a symbolic link of that name, and only its owner may read it. Throws a `Failure` when it cannot.
 */
export async function writeRejected(
  sql: Sql | TransactionSql,
  table: string,
  source: Source,
  format: KeptLines,
  limitBytes = LIMIT_BYTES,
): Promise<number> {
  const path = rejectedPath(source, format);
  const stretches = await sql.unsafe<Stretch[]>(
    `select starts_at as start, ends_at as "end" from ${table} where fault is not null order by line`,
  );
  let bytes = 0;
  const fitting = stretches.findIndex(({ start, end }) => {
    bytes += end - start + 1;
    return bytes > limitBytes;
  });
  const omitted = fitting === -1 ? [] : stretches.splice(fitting);
  async function* lines(): AsyncGenerator<Buffer | string> {
    if (format.header) yield format.header;
    if (stretches.length === 0) return;
    let at = stretches[0]!.start;
    let next = 0;
    for await (const piece of source.read(at)) {
      const pieceEnd = at + piece.length;
      for (let stretch = stretches[next]; stretch && stretch.start < pieceEnd; stretch = stretches[next]) {
        const [from, to] = [Math.max(stretch.start, at), Math.min(stretch.end, pieceEnd)];
        if (from < to) yield piece.subarray(from - at, to - at);
        if (stretch.end > pieceEnd) break;
        yield '\n';
        next++;
      }
      if (next === stretches.length) return;
      at = pieceEnd;
    }
    // the last line may end where the file does
    if (next < stretches.length) throw new Error(`${source.name} became shorter while it was imported`);
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
        'Make room or give yourself the right to write there, and run the same command again.',
    );
  }
}
