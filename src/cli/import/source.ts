import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { type FileHandle, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Failure } from '../failure.ts';

/** What is imported, as a file that can be read twice: once for its hotels, once for the lines that were rejected. */
export interface Source {
  handle: FileHandle;
  sizeBytes: number;
  /** for messages */
  name: string;
  /** where rejected lines go */
  rejectedPath: string;
}

/** A stretch of the source, in bytes; `end` is the first byte behind it. */
export interface Stretch {
  start: number;
  end: number;
}

/** Opens a file, or `-` for standard input. What is no plain file is copied to a temporary one first. */
export async function openSource(path: string): Promise<Source> {
  if (path === '-') return spool(process.stdin, 'standard input', 'stdin.rejected.ndjson');
  let handle: FileHandle;
  try {
    handle = await open(path);
  } catch (error) {
    throw new Failure(`cannot read ${path}: ${(error as Error).message}`);
  }
  const facts = await handle.stat();
  if (facts.isDirectory()) {
    await handle.close();
    throw new Failure(`cannot read ${path}: it is a folder. Name an NDJSON file, or - for standard input.`);
  }
  if (facts.isFile())
    return { handle, sizeBytes: facts.size, name: path, rejectedPath: `${path}.rejected.ndjson` };
  return spool(handle.createReadStream(), path, `${basename(path)}.rejected.ndjson`);
}

/** Writes stretches of the source, each as a line, verbatim, in the order of the source. */
export async function copyStretches(source: Source, stretches: Stretch[]): Promise<void> {
  const { handle, rejectedPath } = source;
  async function* lines(): AsyncGenerator<Buffer> {
    for (const { start, end } of stretches.toSorted((a, b) => a.start - b.start)) {
      for (let at = start; at < end; ) {
        const { bytesRead, buffer } = await handle.read(
          Buffer.alloc(Math.min(end - at, 65_536)),
          0,
          null,
          at,
        );
        if (bytesRead === 0) throw new Error('it became shorter while it was imported');
        yield buffer.subarray(0, bytesRead);
        at += bytesRead;
      }
      yield Buffer.from('\n');
    }
  }
  try {
    await pipeline(lines, createWriteStream(rejectedPath));
  } catch (error) {
    throw new Failure(
      `cannot write the rejected lines to ${rejectedPath}: ${(error as Error).message}. Nothing was imported.`,
    );
  }
}

async function spool(stream: NodeJS.ReadableStream, name: string, rejectedPath: string): Promise<Source> {
  const path = join(tmpdir(), `hotel-api-import-${randomUUID()}`);
  const handle = await open(path, 'wx+', 0o600);
  // Nameless from the start, the copy vanishes with the process, however that ends.
  await rm(path);
  let sizeBytes = 0;
  for await (const chunk of stream) {
    const bytes = chunk as Buffer;
    for (let written = 0; written < bytes.length; ) {
      written += (await handle.write(bytes, written, bytes.length - written)).bytesWritten;
    }
    sizeBytes += bytes.length;
  }
  return { handle, sizeBytes, name, rejectedPath };
}
