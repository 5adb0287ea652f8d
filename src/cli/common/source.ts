import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { type FileHandle, open, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Failure } from '../../lib/failure.ts';

const CHUNK_BYTES = 256 * 1024;
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

/** Source of an import: lines that can be read several times; gzip is unpacked. */
export class Source {
  /** path of a plain file, else a name; also the beginning of the name of the file of its rejected lines */
  readonly name: string;
  /** stored size: compressed if it is gzip */
  readonly sizeBytes: number;
  /** position of reading in the stored bytes */
  positionBytes = 0;
  readonly #handle: FileHandle;
  /** facts before it was read, of a plain file */
  readonly #before: BigIntStats | undefined;

  private constructor(handle: FileHandle, name: string, size: number, before?: BigIntStats) {
    this.#handle = handle;
    this.name = name;
    this.sizeBytes = size;
    this.#before = before;
  }

  /**
   * Opens a file, or `-` for standard input. Other input than a plain file is first copied to a temporary file. Throws a
   * `Failure` if it cannot be read.
   */
  static async open(path: string): Promise<Source> {
    try {
      const given = path === '-' ? undefined : await open(path);
      const facts = await given?.stat({ bigint: true });
      if (given && facts?.isFile()) return new Source(given, path, Number(facts.size), facts);
      const copy = await spool(given?.createReadStream() ?? process.stdin);
      return new Source(copy, given ? basename(path) : 'stdin', (await copy.stat()).size);
    } catch (error) {
      throw new Failure(
        `cannot read ${path}: ${(error as Error).message}. Name an NDJSON or CSV file, or - for standard input.`,
      );
    }
  }

  /** Returns false for a file that was written or replaced since it was opened: it may not be whole. */
  async isUnchanged(): Promise<boolean> {
    const before = this.#before;
    const now = before && (await stat(this.name, { bigint: true }).catch(() => undefined));
    return now?.ino === before?.ino && now?.size === before?.size && now?.mtimeNs === before?.mtimeNs;
  }

  /** Reads the lines, as `readLines` does. Throws a `Failure` for corrupt or truncated gzip. */
  lines(): AsyncGenerator<Line[]> {
    return readLines(this.#read());
  }

  async *#read(): AsyncGenerator<Buffer> {
    const { buffer } = await this.#handle.read(Buffer.alloc(2), 0, 2, 0);
    if (buffer.readUInt16BE() !== 0x1f8b) return yield* this.#stored();
    try {
      const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
      yield* pipeline(this.#stored(), gunzip, () => {}) as AsyncIterable<Buffer>;
      // zlib ends silently at zeros, behind which more may follow
      if (gunzip.bytesWritten < this.sizeBytes)
        throw Object.assign(new Error('other bytes follow the packed ones'), { code: 'Z_DATA_ERROR' });
    } catch (error) {
      if (!(error as NodeJS.ErrnoException).code?.startsWith('Z_')) throw error;
      throw new Failure(
        `${this.name} is corrupt or truncated (gzip: ${(error as Error).message}); nothing was imported. Fetch it again.`,
      );
    }
  }

  // not a stream of the handle, which would close it at its end
  async *#stored(): AsyncGenerator<Buffer> {
    for (let at = 0; ; ) {
      const piece = Buffer.allocUnsafe(CHUNK_BYTES);
      const { bytesRead } = await this.#handle.read(piece, 0, CHUNK_BYTES, at);
      if (bytesRead === 0) return;
      at += bytesRead;
      this.positionBytes = at;
      yield piece.subarray(0, bytesRead);
    }
  }

  close(): Promise<void> {
    return this.#handle.close();
  }
}

async function spool(stream: NodeJS.ReadableStream): Promise<FileHandle> {
  const path = join(tmpdir(), `hotel-api-import-${randomUUID()}`);
  const handle = await open(path, 'wx+', 0o600);
  // unlinked at once, so that the copy is freed with the process in every case
  await rm(path);
  await handle.writeFile(stream);
  return handle;
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
