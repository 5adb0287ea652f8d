import { isUtf8 } from 'node:buffer';
import type { FileHandle } from 'node:fs/promises';
import type { Stretch } from './source.ts';

const LINE_LIMIT_BYTES = 1024 * 1024;
const READ_BYTES = 256 * 1024;
const NEWLINE = 10;

/** A line of the source and where it stands, without its newline. */
export interface Line extends Stretch {
  /** counted from 1 */
  number: number;
  /** undefined for a line that cannot be read; `fault` says why */
  text: string | undefined;
  fault: string;
}

/** Reads the lines of a file, blank ones left out, one array for each piece that was read. Holds at most one line more than 1 MiB. */
export async function* readLines(handle: FileHandle): AsyncGenerator<Line[]> {
  let number = 0;
  let start = 0;
  let at = 0;
  let begun: Buffer[] = [];
  let begunBytes = 0;
  const finish = (rest: Buffer): Line | undefined => {
    const end = start + begunBytes + rest.length;
    const bytes = begun.length === 0 ? rest : Buffer.concat([...begun, rest]);
    const line = readLine(++number, { start, end }, bytes);
    start = end + 1;
    begun = [];
    begunBytes = 0;
    return line;
  };
  for (;;) {
    const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(READ_BYTES), 0, READ_BYTES, at);
    if (bytesRead === 0) break;
    at += bytesRead;
    const piece = buffer.subarray(0, bytesRead);
    const lines: Line[] = [];
    let from = 0;
    for (let to = piece.indexOf(NEWLINE); to !== -1; to = piece.indexOf(NEWLINE, from)) {
      const line = finish(piece.subarray(from, to));
      if (line) lines.push(line);
      from = to + 1;
    }
    const rest = piece.subarray(from);
    // Of a line that is too long only its length is kept.
    if (begunBytes <= LINE_LIMIT_BYTES) begun.push(rest);
    begunBytes += rest.length;
    yield lines;
  }
  if (begunBytes > 0) {
    const line = finish(Buffer.alloc(0));
    if (line) yield [line];
  }
}

function readLine(number: number, stretch: Stretch, bytes: Buffer): Line | undefined {
  if (stretch.end - stretch.start > LINE_LIMIT_BYTES) {
    return { number, ...stretch, text: undefined, fault: 'the line is longer than 1 MiB' };
  }
  if (!isUtf8(bytes)) return { number, ...stretch, text: undefined, fault: 'the line is not UTF-8' };
  // A byte order mark is no part of the first line's JSON.
  const isMarked = number === 1 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  const text = bytes.toString('utf8', isMarked ? 3 : 0);
  return text.trim() === '' ? undefined : { number, ...stretch, text, fault: '' };
}
