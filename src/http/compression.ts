import { promisify } from 'node:util';
import {
  brotliCompress,
  brotliCompressSync,
  constants,
  gzip as gzipOfZlib,
  zstdCompress,
  zstdCompressSync,
} from 'node:zlib';
import Negotiator from 'negotiator';
import { BufferPool } from '../lib/buffer-pool.ts';
import type { EventLoop } from '../lib/event-loop.ts';
import { gzip, gzipNow, type Recipient } from './gzip.ts';

/** Smaller bodies are not compressed: with the head they fit one packet of 1,448 bytes. */
export const MIN_COMPRESSED_BYTES = 1025;

/** A supported content coding. */
export type Encoding = 'zstd' | 'br' | 'gzip';
const PREFERENCE: Encoding[] = ['zstd', 'br', 'gzip'];

const NOW = { zstd: zstdCompressSync, br: brotliCompressSync };
const LATER = { zstd: promisify(zstdCompress), br: promisify(brotliCompress) };
const zlibGzip = promisify(gzipOfZlib);

/**
 * Levels. Quick: one response; a batch of 1000 hotels (1.06 MB) takes 1.9 ms of processor time by zstd 1 and by br 1. Small:
 * many responses with one hotel; 1.2 kB take 32 µs by br 5 (570 bytes) and 45 by zstd 3 (650). Smallest: what never
 * changes; Brotli's last levels would take seconds for a megabyte. Gzip has its own encoder for responses (gzip.ts).
 */
const LEVELS = {
  zstd: { quick: 1, small: 3, smallest: 15 },
  br: { quick: 1, small: 5, smallest: 9 },
};
/** Size of output chunks. Most JSON shrinks to one chunk; each further chunk is another hop between threads. */
const CHUNK_SHARE = 1 / 4;
const MIN_CHUNK_BYTES = 1_024;
/** Maximum share of the body's size at which the compressed form is used. */
const WORTHWHILE_SHARE = 0.9;
/**
 * Maximum size of bodies that are compressed at once: 100 hotels, which take 0.2 to 0.4 ms. In later iterations or on other
 * threads, short bodies cost more than their compression.
 */
export const MAX_SYNC_BYTES = 131_072;

/**
 * Returns the supported encoding that Accept-Encoding prefers, or undefined for identity. `*` means gzip at most,
 * because clients that send it do not always know the newer codings.
 */
function chooseEncoding(acceptEncoding: string): Encoding | undefined {
  if (acceptEncoding === '' || acceptEncoding === 'identity') return undefined;
  const ours = acceptEncoding.includes('*') ? offeredToAny(acceptEncoding) : PREFERENCE;
  const accepted = new Negotiator({ headers: { 'accept-encoding': acceptEncoding } });
  // the published types are of an older version
  const encodings = accepted.encodings.bind(accepted) as (available: string[], options: object) => string[];
  const chosen = encodings([...ours, 'identity'], { preferred: ours })[0];
  return chosen === undefined || chosen === 'identity' ? undefined : (chosen as Encoding);
}

/**
 * Returns the encodings offered for an Accept-Encoding with `*`: those it names, and gzip unless it names identity
 * alone.
 */
function offeredToAny(acceptEncoding: string): Encoding[] {
  const named = acceptEncoding.split(',').map((part) => part.split(';', 1)[0]!.trim().toLowerCase());
  return PREFERENCE.filter(
    (coding) => named.includes(coding) || (coding === 'gzip' && !named.includes('identity')),
  );
}

/** Cached choices by header value: clients send few distinct values. */
const chosen = new Map<string, Encoding | undefined>();
const MAX_CHOSEN = 256;
/** Longest value that is parsed, in 20 µs. Those of browsers have 30 characters; 4 kB would take a millisecond. */
const MAX_CHOSEN_LENGTH = 128;

/** Returns the result of `chooseEncoding`, which takes microseconds, from a cache. A long value counts as identity. */
export function encodingFor(acceptEncoding: string): Encoding | undefined {
  if (acceptEncoding === '' || acceptEncoding.length > MAX_CHOSEN_LENGTH) return undefined;
  const known = chosen.get(acceptEncoding);
  if (known !== undefined || chosen.has(acceptEncoding)) return known;
  const encoding = chooseEncoding(acceptEncoding);
  if (chosen.size >= MAX_CHOSEN) chosen.clear();
  chosen.set(acceptEncoding, encoding);
  return encoding;
}

/** Maximum number of bytes of bodies that are compressed or wait for it, each in a copy; one may always be. */
const MAX_UNDER_WAY_BYTES = 64 * 1024 * 1024;
let underWayBytes = 0;
const pool = new BufferPool([512 * 1024, 2 * 1024 * 1024], 16 * 1024 * 1024);

/** Returns false if too much waits for compression already; the response is then sent as identity. */
export function mayCompress(bytes: number): boolean {
  return underWayBytes === 0 || underWayBytes + bytes <= MAX_UNDER_WAY_BYTES;
}

/**
 * Compresses in pieces or on another thread, so that the event loop is not blocked. The body may be overwritten after the
 * call. The result is empty if the client disconnects meanwhile.
 */
export async function compress(
  body: Uint8Array,
  encoding: Encoding,
  recipient: Recipient,
  eventLoop: EventLoop,
): Promise<Buffer> {
  underWayBytes += body.length;
  const kept = pool.copy(body);
  try {
    return await (encoding === 'gzip'
      ? gzip(kept, recipient, eventLoop)
      : LATER[encoding](kept, optionsOf(kept, encoding, 'quick')));
  } finally {
    pool.release(kept);
    underWayBytes -= kept.length;
  }
}

/** Compresses on the event loop, for bodies up to `MAX_SYNC_BYTES`. */
export function compressNow(
  body: Uint8Array,
  encoding: Encoding,
  effort: 'quick' | 'small' = 'quick',
): Buffer {
  return encoding === 'gzip' ? gzipNow(body) : NOW[encoding](body, optionsOf(body, encoding, effort));
}

/** Compresses a constant page on another thread. */
export function compressPage(body: Uint8Array, encoding: Encoding): Promise<Buffer> {
  return encoding === 'gzip'
    ? zlibGzip(body, { level: constants.Z_BEST_COMPRESSION })
    : LATER[encoding](body, optionsOf(body, encoding, 'smallest'));
}

/** Returns true if the compressed form is smaller than the body by a tenth or more. */
export function isWorthwhile(compressed: Uint8Array, body: Uint8Array): boolean {
  return compressed.length <= WORTHWHILE_SHARE * body.length;
}

function optionsOf(body: Uint8Array, encoding: 'zstd' | 'br', effort: keyof typeof LEVELS.br) {
  const level = LEVELS[encoding][effort];
  const { ZSTD_c_compressionLevel, BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT } = constants;
  const params: Record<number, number> =
    encoding === 'zstd'
      ? { [ZSTD_c_compressionLevel]: level }
      : { [BROTLI_PARAM_QUALITY]: level, [BROTLI_PARAM_SIZE_HINT]: body.length };
  return { params, chunkSize: Math.max(MIN_CHUNK_BYTES, Math.ceil(body.length * CHUNK_SHARE)) };
}
