import { isUtf8 } from 'node:buffer';

/** Maximum size of a line, and of a row of several lines. */
export const LINE_LIMIT_BYTES = 1024 * 1024;
const NEWLINE = 10;

/** Line of the source without its newline; or a row of several lines. */
export interface Line {
  /** line number from 1; of a row, the first */
  number: number;
  /** the line as it is stored, of one that is too long the first MiB */
  bytes: Buffer;
  /** undefined for an unreadable line; `fault` is the reason */
  text: string | undefined;
  fault: string;
}

/**
 * Splits the chunks of a file into lines. Yields an array for each chunk. Buffers at most 1 MiB of one line. Drops byte order
 * marks at the beginning of lines, which joined files have.
 */
export async function* readLines(pieces: AsyncIterable<Buffer>): AsyncGenerator<Line[]> {
  let number = 0;
  let begun: Buffer[] = [];
  let begunBytes = 0;
  const finish = (rest: Buffer): Line => {
    const stored = begun.length === 0 ? rest : Buffer.concat([...begun, rest]);
    const isLong = begunBytes + rest.length > LINE_LIMIT_BYTES;
    const bytes = stored.subarray(0, LINE_LIMIT_BYTES);
    begun = [];
    begunBytes = 0;
    return { number: ++number, bytes, ...readText(bytes, isLong) };
  };
  for await (const piece of pieces) {
    const lines: Line[] = [];
    let from = 0;
    for (let to = piece.indexOf(NEWLINE); to !== -1; to = piece.indexOf(NEWLINE, from)) {
      lines.push(finish(piece.subarray(from, to)));
      from = to + 1;
    }
    const rest = piece.subarray(from);
    // of a line that is too long only the beginning and the length are kept
    if (begunBytes <= LINE_LIMIT_BYTES) begun.push(rest);
    begunBytes += rest.length;
    yield lines;
  }
  if (begunBytes > 0) yield [finish(Buffer.alloc(0))];
}

function readText(bytes: Buffer, isLong: boolean): Pick<Line, 'text' | 'fault'> {
  if (isLong) return { text: undefined, fault: 'the line is longer than 1 MiB' };
  if (!isUtf8(bytes)) return { text: undefined, fault: 'the line is not UTF-8' };
  const isMarked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return { text: bytes.toString('utf8', isMarked ? 3 : 0), fault: '' };
}
