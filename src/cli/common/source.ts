import { createHash, randomUUID } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { type FileHandle, open, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Failure } from '../../lib/failure.ts';

const PIECE_BYTES = 256 * 1024;

/** Source of an import: bytes that can be read again from any offset; gzip is unpacked. */
export class Source {
  /** name in messages */
  readonly name: string;
  /** prefix of the names of files created for it */
  readonly path: string;
  /** stored size: compressed if it is gzip */
  readonly sizeBytes: number;
  readonly #handle: FileHandle;
  readonly #isGzip: boolean;
  /** facts before it was read, of a plain file */
  #before: BigIntStats | undefined;
  #positionBytes = 0;

  private constructor(handle: FileHandle, name: string, path: string, sizeBytes: number, isGzip: boolean) {
    this.#handle = handle;
    this.name = name;
    this.path = path;
    this.sizeBytes = sizeBytes;
    this.#isGzip = isGzip;
  }

  /**
   * Opens a file, or `-` for standard input. Other input than a plain file is first copied to a temporary file. Throws a
   * `Failure` if it cannot be read.
   */
  static async open(path: string): Promise<Source> {
    if (path === '-') return Source.#ofHandle(await spool(process.stdin), 'standard input', 'stdin');
    let handle: FileHandle;
    try {
      handle = await open(path);
    } catch (error) {
      throw new Failure(
        `cannot read ${path}: ${(error as Error).message}. Name an NDJSON or CSV file, or - for standard input.`,
      );
    }
    const facts = await handle.stat({ bigint: true });
    if (facts.isFile()) {
      const source = await Source.#ofHandle(handle, path, path);
      source.#before = facts;
      return source;
    }
    try {
      if (facts.isDirectory())
        throw new Failure(
          `cannot read ${path}: it is a folder. Name an NDJSON or CSV file, or - for standard input.`,
        );
      return Source.#ofHandle(
        await spool(handle.createReadStream({ autoClose: false })),
        path,
        basename(path),
      );
    } finally {
      await handle.close();
    }
  }

  static async #ofHandle(handle: FileHandle, name: string, path: string): Promise<Source> {
    const { size } = await handle.stat();
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    const isGzip = bytesRead === 2 && buffer[0] === 0x1f && buffer[1] === 0x8b;
    return new Source(handle, name, path, size, isGzip);
  }

  /** Position of reading in the stored bytes. */
  get positionBytes(): number {
    return this.#positionBytes;
  }

  /** Returns false for a file that was written or replaced since it was opened: it may not be whole. */
  async isUnchanged(): Promise<boolean> {
    const before = this.#before;
    const now = before && (await stat(this.path, { bigint: true }).catch(() => undefined));
    return now?.ino === before?.ino && now?.size === before?.size && now?.mtimeNs === before?.mtimeNs;
  }

  /** Yields the content from this byte on (unpacked offset). Throws a `Failure` for corrupt or truncated gzip. */
  async *read(start: number): AsyncGenerator<Buffer> {
    if (!this.#isGzip) {
      yield* this.#stored(start);
      return;
    }
    let skip = start;
    try {
      for (let member = 0; member < this.sizeBytes; ) {
        const gunzip = createGunzip({ chunkSize: PIECE_BYTES });
        const unpacked = pipeline(this.#stored(member), gunzip, () => {});
        for await (const piece of unpacked as AsyncIterable<Buffer>) {
          if (skip < piece.length) yield skip === 0 ? piece : piece.subarray(skip);
          skip = Math.max(0, skip - piece.length);
        }
        gunzip.destroy();
        // zlib ends silently at zeros after a member: another one may follow such padding
        member = await this.#skipZeros(member + gunzip.bytesWritten);
      }
    } catch (error) {
      if (!(error as NodeJS.ErrnoException).code?.startsWith('Z_')) throw error;
      throw new Failure(
        `${this.name} is corrupt or truncated (gzip: ${(error as Error).message}); nothing was imported. Fetch it again.`,
      );
    }
  }

  /** Returns the content from one byte to another, or to its end. */
  async slice(start: number, end: number): Promise<Buffer> {
    let content = Buffer.alloc(0);
    for await (const piece of this.read(start)) {
      content = Buffer.concat([content, piece]);
      if (content.length >= end - start) break;
    }
    return content.subarray(0, end - start);
  }

  /** Returns the sha256 of the stored bytes, hexadecimal, which identifies the content for an interrupted import. */
  async identity(): Promise<string> {
    const hash = createHash('sha256');
    for await (const piece of this.#stored(0)) hash.update(piece);
    return hash.digest('hex');
  }

  async *#stored(start: number): AsyncGenerator<Buffer> {
    for (let at = start; ; ) {
      const place = Buffer.allocUnsafe(PIECE_BYTES);
      const { bytesRead, buffer } = await this.#handle.read(place, 0, PIECE_BYTES, at);
      if (bytesRead === 0) return;
      at += bytesRead;
      this.#positionBytes = at;
      yield buffer.subarray(0, bytesRead);
    }
  }

  /** Returns the offset of the first stored byte from `at` on that is not zero. */
  async #skipZeros(at: number): Promise<number> {
    let zeros = 0;
    for await (const piece of this.#stored(at)) {
      const found = piece.findIndex((byte) => byte !== 0);
      if (found !== -1) return at + zeros + found;
      zeros += piece.length;
    }
    return at + zeros;
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
  for await (const chunk of stream) {
    const bytes = chunk as Buffer;
    for (let written = 0; written < bytes.length; ) {
      written += (await handle.write(bytes, written, bytes.length - written)).bytesWritten;
    }
  }
  return handle;
}
