import { isUtf8 } from 'node:buffer';

const LINE_LIMIT_BYTES = 1024 * 1024;
const NEWLINE = 10;
const QUOTE = 34;

/** Range of the source in bytes of its unpacked content; `end` is exclusive. */
export interface ByteRange {
  start: number;
  end: number;
}

/** Line of the source without its newline, and its range. */
export interface Line extends ByteRange {
  /** line number from 1; of a CSV row with several lines, the first */
  number: number;
  /** undefined for an unreadable line; `fault` is the reason */
  text: string | undefined;
  fault: string;
}

/** Start of reading: behind the line with this number, at this byte. */
export interface Mark {
  number: number;
  start: number;
}

export const BEGINNING: Mark = { number: 0, start: 0 };

/**
 * Splits the chunks of a file, the first of which begins at the mark, into lines without blank ones. Yields an array for
 * each chunk. With `quoted` a newline between quotes does not end a line, as in CSV. Buffers at most 1 MiB of one line.
 */
export async function* readLines(
  pieces: AsyncIterable<Buffer>,
  mark: Mark,
  { quoted }: { quoted: boolean },
): AsyncGenerator<Line[]> {
  let { number, start } = mark;
  let begun: Buffer[] = [];
  let begunBytes = 0;
  let isOpen = false;
  let newlines = 0;
  const finish = (rest: Buffer): Line | undefined => {
    const end = start + begunBytes + rest.length;
    const bytes = begun.length === 0 ? rest : Buffer.concat([...begun, rest]);
    const line = readLine(number + 1, { start, end }, bytes, isOpen);
    number += 1 + newlines;
    start = end + 1;
    begun = [];
    begunBytes = 0;
    isOpen = false;
    newlines = 0;
    return line;
  };
  for await (const piece of pieces) {
    const lines: Line[] = [];
    let from = 0;
    let quote = quoted ? piece.indexOf(QUOTE) : -1;
    /** Passes the quotes before `to`. */
    const passQuotes = (to: number) => {
      for (; quote !== -1 && quote < to; quote = piece.indexOf(QUOTE, quote + 1)) isOpen = !isOpen;
    };
    for (let to = piece.indexOf(NEWLINE); to !== -1; to = piece.indexOf(NEWLINE, to + 1)) {
      passQuotes(to);
      // an unclosed quote affects at most the maximum length of a line
      if (isOpen && begunBytes + to - from <= LINE_LIMIT_BYTES) {
        newlines++;
        continue;
      }
      const line = finish(piece.subarray(from, to));
      if (line) lines.push(line);
      from = to + 1;
    }
    passQuotes(piece.length);
    const rest = piece.subarray(from);
    // of a line that is too long only the length is kept
    if (begunBytes <= LINE_LIMIT_BYTES) begun.push(rest);
    begunBytes += rest.length;
    yield lines;
  }
  if (begunBytes > 0) {
    const line = finish(Buffer.alloc(0));
    if (line) yield [line];
  }
}

function readLine(number: number, range: ByteRange, bytes: Buffer, isOpen: boolean): Line | undefined {
  const wrong = (fault: string) => ({ number, ...range, text: undefined, fault });
  if (range.end - range.start > LINE_LIMIT_BYTES) {
    return wrong(isOpen ? 'a quote is not closed within 1 MiB' : 'the line is longer than 1 MiB');
  }
  if (isOpen) return wrong('a quote is not closed');
  if (!isUtf8(bytes)) return wrong('the line is not UTF-8');
  // the first line may begin with a byte order mark
  const isMarked = range.start === 0 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  const text = bytes.toString('utf8', isMarked ? 3 : 0);
  return text.trim() === '' ? undefined : { number, ...range, text, fault: '' };
}
