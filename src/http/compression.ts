import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  brotliCompressSync,
  constants,
  crc32,
  createBrotliCompress,
  createGzip,
  createZstdCompress,
  zstdCompressSync,
} from 'node:zlib';
import type { Encoding } from '../hotels/entry.ts';
import { type Body, LargeBody } from '../hotels/json-array.ts';
import { BufferPool } from '../lib/buffer-pool.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { EventLoop } from '../lib/event-loop.ts';
import { LruCache } from '../lib/lru-cache.ts';
import { RecentValue } from '../lib/recent-value.ts';
import { Turns } from '../lib/turns.ts';
import { compileModule, type Global } from '../wasm/load.ts';
import type { Client } from './transfers.ts';

/** Smaller bodies are not compressed: with the head they fit one packet of 1,448 bytes. */
export const MIN_COMPRESSED_BYTES = 1025;

const NOW = { zstd: zstdCompressSync, br: brotliCompressSync };
const STREAMS = { zstd: createZstdCompress, br: createBrotliCompress, gzip: createGzip };
const STREAM_CHUNK_BYTES = 256 * 1024;

/**
 * Levels. Quick: one response; a batch of 1000 hotels takes 2 to 3 ms by zstd 1 and by br 1 (docs/benchmarks.md). Small: many
 * responses with one hotel; 1.2 kB take 32 µs by br 5 (570 bytes) and 45 by zstd 3 (650). Gzip has its own encoder for most responses.
 */
const LEVELS = { zstd: { quick: 1, small: 3 }, br: { quick: 1, small: 5 }, gzip: { quick: 1, small: 1 } };
/**
 * Size of the output chunks of a synchronous call, as a share of the body. Most JSON shrinks to one; each further one is allocated and
 * copied.
 */
const CHUNK_SHARE = 1 / 4;
const MIN_CHUNK_BYTES = 1_024;
/**
 * Maximum size of bodies that are compressed at once: 100 hotels, which take 0.2 to 0.4 ms. In later iterations or on other
 * threads, short bodies cost more than their compression.
 */
export const MAX_SYNC_BYTES = 131_072;
/**
 * Maximum size of bodies that are compressed in one turn of their owner, in up to 6 ms of usual hotels. On another thread
 * the encoders of Node take 1.5 times the CPU time, because each allocates its memory anew there.
 */
const MAX_TURN_BYTES = 2 * 1024 * 1024;
/**
 * Share of the body that the compressed form of usual hotels has at most. Gzip takes longer in proportion to a larger one: for
 * 2 MiB of English, Chinese or hexadecimal text (0.33, 0.64 and 0.51) 16, 28 and 31 ms.
 */
const USUAL_SHARE = 1 / 6;
const shares = new RecentValue(USUAL_SHARE);
/** A body whose turn comes later is sent as it is. */
const MAX_TURN_WAIT_MS = 500;
/** Size of the work, in bytes of bodies of batches that take as long: for a body, and for each of its bytes. */
const BODY_SIZE = 1_024;
const BYTE_SIZE = 1 / 8;
const EMPTY = Buffer.alloc(0);

/** Maximum number of bytes of bodies that are compressed or wait for it, each in a copy; one may always be. */
const MAX_UNDER_WAY_BYTES = 64 * 1024 * 1024;
let underWayBytes = 0;
/** Maximum for bodies that are compressed on other threads. */
const MAX_ON_THREADS_BYTES = 32 * 1024 * 1024;
let onThreadsBytes = 0;
/** Two bodies are compressed on other threads at once: more would keep the processors from other clients. */
const threads = new Turns(2, 1, MAX_SYNC_BYTES);
const pool = new BufferPool([512 * 1024, 2 * 1024 * 1024], 16 * 1024 * 1024);

/** Returns the bytes of usual hotels that take as long to compress as this many of this API key's. */
function weightOf(bytes: number, owner: string): number {
  return (bytes * shares.get(owner)) / USUAL_SHARE;
}

/** Returns true if a body of this size is compressed on another thread. */
export function takesThread(bytes: number, owner: string): boolean {
  return weightOf(bytes, owner) > MAX_TURN_BYTES;
}

/** Returns false if too much waits for compression already; the response is then sent as identity. */
export function mayCompress(bytes: number, owner: string): boolean {
  const fits = (before: number, max: number) => before === 0 || before + bytes <= max;
  if (takesThread(bytes, owner) && !fits(onThreadsBytes, MAX_ON_THREADS_BYTES)) return false;
  return fits(underWayBytes, MAX_UNDER_WAY_BYTES);
}

/** A body in an encoding; undefined: as it was, because its turn came too late. */
export interface Compressed {
  bytes: Body;
  encoding: Encoding | undefined;
}

/**
 * Compresses in a turn of the owner or on another thread. The body may be overwritten after the call. The result may be
 * empty, or cut short, if the client disconnects meanwhile.
 */
export async function compress(
  body: Body,
  encoding: Encoding,
  client: Client,
  eventLoop: EventLoop,
): Promise<Compressed> {
  const { length } = body;
  const { owner } = client;
  const kept = body instanceof LargeBody ? undefined : pool.copy(body);
  const onThread = !kept || takesThread(length, owner);
  const work = async (isLate: boolean): Promise<Compressed> => {
    if (client.over) return { bytes: EMPTY, encoding };
    if (isLate) return { bytes: kept ? Buffer.from(kept) : body, encoding: undefined };
    const bytes = onThread ? await stream(kept ?? body, encoding, client) : compressNow(kept, encoding);
    shares.noteMaximum(owner, bytes.length / length);
    return { bytes, encoding };
  };
  if (onThread) onThreadsBytes += length;
  try {
    if (onThread) return await underWay(length, threads.run(owner, length, timed(work)));
    return await inTurn(length, client, eventLoop, work);
  } finally {
    if (onThread) onThreadsBytes -= length;
    if (kept) pool.release(kept);
  }
}

/** Returns work that is told whether its turn comes too late for compression. */
function timed<T>(work: (isLate: boolean) => T): () => T {
  const beganMs = monotonicMs();
  return () => work(monotonicMs() - beganMs > MAX_TURN_WAIT_MS);
}

/** Does work that compresses a body of so many bytes in a turn of its owner. Settles as it does. */
export function inTurn<T>(
  bytes: number,
  { owner }: Client,
  eventLoop: EventLoop,
  work: (isLate: boolean) => T | Promise<T>,
): Promise<T> {
  const size = BODY_SIZE + BYTE_SIZE * weightOf(bytes, owner);
  return underWay(bytes, eventLoop.run(owner, size, timed(work)));
}

/** Counts a body as under way until its compression settles. */
async function underWay<T>(bytes: number, compressing: Promise<T>): Promise<Awaited<T>> {
  underWayBytes += bytes;
  try {
    return await compressing;
  } finally {
    underWayBytes -= bytes;
  }
}

/**
 * Compresses piece by piece on another thread; bytes must not change meanwhile. The result is cut short if the client
 * disconnects.
 */
async function stream(body: Body, encoding: Encoding, client: Client): Promise<LargeBody> {
  function* pieces() {
    for (let at = 0; at < body.length && !client.over; ) {
      const piece =
        body instanceof Uint8Array
          ? body.subarray(at, at + STREAM_CHUNK_BYTES)
          : Buffer.from(body.bytesFrom(at));
      at += piece.length;
      yield piece;
    }
  }
  const coder = STREAMS[encoding]({ ...optionsOf(body, encoding, 'quick'), chunkSize: STREAM_CHUNK_BYTES });
  const compressed: Buffer[] = [];
  await pipeline(Readable.from(pieces()), coder, async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) compressed.push(chunk);
  });
  return new LargeBody(compressed);
}

/** Compresses on the event loop. */
export function compressNow(
  body: Uint8Array,
  encoding: Encoding,
  effort: 'quick' | 'small' = 'quick',
): Buffer {
  return encoding === 'gzip' ? gzip(body) : NOW[encoding](body, optionsOf(body, encoding, effort));
}

function optionsOf(body: { length: number }, encoding: Encoding, effort: keyof typeof LEVELS.br) {
  const level = LEVELS[encoding][effort];
  const chunkSize = Math.max(MIN_CHUNK_BYTES, Math.ceil(body.length * CHUNK_SHARE));
  if (encoding === 'gzip') return { level, chunkSize };
  const { ZSTD_c_compressionLevel, BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT } = constants;
  const params: Record<number, number> =
    encoding === 'zstd'
      ? { [ZSTD_c_compressionLevel]: level }
      : { [BROTLI_PARAM_QUALITY]: level, [BROTLI_PARAM_SIZE_HINT]: body.length };
  return { params, chunkSize };
}

/** RFC 1952, 2.3: DEFLATE, no flags, no time, the fastest algorithm, any system. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255]);
const TRAILER_BYTES = 8;
/** Up to the end of the module's output. A page is resident only after its first use. */
const MEMORY_BYTES = 0x150000;

/** Exports of wasm/assembly/deflate/deflate.ts. Addresses and lengths are in bytes. */
interface DeflateWasm extends Record<'INPUT' | 'PIECE_BYTES' | 'OUTPUT' | 'OUTPUT_BYTES', Global> {
  begin(bytes: number): void;
  compress(length: number, isLast: number): number;
}

const instantiate = compileModule<DeflateWasm>(new URL('../wasm/deflate.wasm', import.meta.url));
const { wasm, memory } = instantiate(MEMORY_BYTES);
const input = new Uint8Array(memory.buffer, wasm.INPUT.value, wasm.PIECE_BYTES.value);
const output = Buffer.from(memory.buffer, wasm.OUTPUT.value, wasm.OUTPUT_BYTES.value);

/**
 * Returns the body compressed to gzip (RFC 1952). A batch of 1000 hotels takes 0.7 of the CPU time of zlib's level 1, and
 * makes fewer bytes.
 */
export function gzip(body: Uint8Array): Buffer {
  const parts = [HEADER];
  wasm.begin(body.length);
  for (let start = 0, isLast = false; !isLast; start += input.length) {
    const piece = body.subarray(start, start + input.length);
    isLast = start + piece.length === body.length;
    input.set(piece);
    const written = wasm.compress(piece.length, isLast ? 1 : 0);
    parts.push(Buffer.from(output.subarray(0, written)));
  }
  const trailer = Buffer.alloc(TRAILER_BYTES);
  trailer.writeUInt32LE(crc32(body), 0);
  trailer.writeUInt32LE(body.length, 4);
  return Buffer.concat([...parts, trailer]);
}

/** Memory of an entry beside its bytes. */
const PAGE_OVERHEAD_BYTES = 300;

/**
 * Compressed pages of the list, the last used ones, by tag. A page is used only for the same body: values of Redis have tags
 * that a hostile writer may choose.
 */
export class CompressedPages {
  readonly #pages: LruCache<string, { body: Uint8Array; compressed: Buffer }>;

  constructor(maxBytes: number) {
    this.#pages = new LruCache(
      maxBytes,
      ({ body, compressed }) => body.length + compressed.length + PAGE_OVERHEAD_BYTES,
    );
  }

  get(tag: string, encoding: Encoding, body: Uint8Array): Buffer | undefined {
    const kept = this.#pages.get(tag + encoding);
    return kept && Buffer.compare(kept.body, body) === 0 ? kept.compressed : undefined;
  }

  /** Keeps a page, which must not be overwritten, and a copy of its compressed form. */
  put(tag: string, encoding: Encoding, body: Uint8Array, compressed: Uint8Array): void {
    // a small result of zlib would keep the whole 8 KiB of Node's pool that it is a part of
    const own = Buffer.allocUnsafeSlow(compressed.length);
    own.set(compressed);
    this.#pages.put(tag + encoding, { body, compressed: own });
  }
}
