import { randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { type FileHandle, open, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Failure } from '../../lib/failure.ts';

const CHUNK_BYTES = 256 * 1024;

/** Source of an import: bytes that can be read several times; gzip is unpacked. */
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

  /** Yields the content. Throws a `Failure` for corrupt or truncated gzip. */
  async *read(): AsyncGenerator<Buffer> {
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
