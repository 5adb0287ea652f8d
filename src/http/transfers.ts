import type { HttpResponse } from 'uWebSockets.js';
import { type Body, LargeBody } from '../hotels/json-array.ts';
import { BufferPool } from '../lib/buffer-pool.ts';
import { clearTimer, setTimer, type Timer } from '../lib/clock.ts';
import { HeldBytes } from '../lib/held-bytes.ts';

/*
 * Bodies on their way: of requests until they have arrived, and of responses until the kernel has taken them. Both must keep a pace,
 * and a worker holds a limited number of their bytes, beyond which it ends those of the API key with the most of them.
 */

export const MAX_BODY_BYTES = 1024 * 1024;
/** Bytes that are read of a larger body. Many clients do not read a response that comes before they have sent their request. */
export const MAX_READ_BODY_BYTES = 8 * MAX_BODY_BYTES;
/**
 * Bytes behind which the client is disconnected without a response. While it sends as fast as the library reads, the library
 * reads on in the same iteration of the event loop, and nothing is answered.
 */
const MAX_ARRIVED_BYTES = 2 * MAX_READ_BODY_BYTES;

/** Time to wait for the body of a rejected request. */
const DISCARD_MS = 250;

/** Bytes that must move in each window: 16 KB/s in the 10 s of a response, as the HTTP library demands of bodies. */
const MIN_PACED_BYTES = 160 * 1024;
/** Less than the 8 s after which the HTTP library disconnects clients that send nothing, without a response. */
const BODY_WINDOW_MS = 7_000;
const RESPONSE_WINDOW_MS = 10_000;

/**
 * Per-worker limit on the bytes of unfinished bodies. When it is exceeded, the oldest body of the API key with the most of them
 * is rejected. Bodies whose key is being looked up count as those of one key.
 */
export const MAX_UNFINISHED_BYTES = 32 * 1024 * 1024;

/**
 * Number of pieces of a body beyond which the client is disconnected if their mean size is below SMALL_PIECE_BYTES. Each chunk
 * is a call of the HTTP library: 87,000 for 512 KiB of chunks of one byte, in 60 ms. A thousand ids and their commas fit.
 */
const MAX_SMALL_PIECES = 2_048;
/** The same of a rejected request, whose body is not needed. Beyond a quarter of them the response is not delayed any longer. */
const MAX_SMALL_PIECES_DISCARDED = 256;
const SMALL_PIECE_BYTES = 1_024;

/** Client of a request. */
export interface Client {
  /** API key whose share is used; '' before it is known */
  readonly owner: string;
  /** true: the request is answered, or the client has disconnected */
  readonly over: boolean;
}

/** What becomes of a body; one of them is called, at most once. */
interface BodyListener {
  /** the whole body; undefined at its end after `drop`, and if it exceeds `MAX_BODY_BYTES`: at its end or after `MAX_READ_BODY_BYTES` */
  done(body: Uint8Array | undefined): void;
  /** it arrives too slowly */
  late(): void;
  /** it is the one to reject, because too many bytes are held */
  full(): void;
  readonly client: Client;
  /** false: the bytes are valid during the call of `done` only; true: until `end`, and held until then */
  readonly keeps: boolean;
}

/** A body that arrives. */
export interface ArrivingBody {
  /** Keeps nothing of it: `done` is called at its end, without it. */
  drop(): void;
  /** Ends the collection: no listener is called any more. */
  end(): void;
}

/** Watches a body on its way until `end`. Calls `tooSlow` once if fewer than `MIN_PACED_BYTES` move in `windowMs`. */
class Pace {
  readonly #windowMs: number;
  readonly #tooSlow: () => void;
  #beforeWindow = 0;
  /** undefined: it has ended */
  #timer: Timer | undefined;

  constructor(windowMs: number, tooSlow: () => void) {
    this.#windowMs = windowMs;
    this.#tooSlow = tooSlow;
    this.#timer = setTimer(tooSlow, windowMs);
  }

  /** Takes the number of bytes that have moved since the beginning. */
  moved(bytes: number): void {
    if (!this.#timer || bytes - this.#beforeWindow < MIN_PACED_BYTES) return;
    this.#beforeWindow = bytes;
    clearTimer(this.#timer);
    this.#timer = setTimer(this.#tooSlow, this.#windowMs);
  }

  end(): void {
    clearTimer(this.#timer);
    this.#timer = undefined;
  }
}

const arriving = new BufferPool([64 * 1024, 256 * 1024, MAX_BODY_BYTES], 8 * 1024 * 1024);
/** by what rejects them */
const unfinished = new HeldBytes<() => void>();

/** Collects a request body. Must be called before the handler returns. */
export function collectBody(response: HttpResponse, listener: BodyListener): ArrivingBody {
  let collected: Buffer | undefined;
  let isOver = false;
  let isDropped = false;
  let pieces = 0;
  let arrived = 0;
  const reject = () => {
    end();
    listener.full();
  };
  const hold = (buffer: Buffer | undefined) => {
    if (collected) arriving.release(collected);
    collected = buffer;
    if (buffer) unfinished.set(reject, listener.client.owner, buffer.length);
    else unfinished.delete(reject);
    while (unfinished.total > MAX_UNFINISHED_BYTES) unfinished.firstOfLargest()!();
  };
  const end = () => {
    if (isOver) return;
    isOver = true;
    hold(undefined);
    pace.end();
  };
  const drop = () => {
    isDropped = true;
    hold(undefined);
  };
  const pace = new Pace(BODY_WINDOW_MS, () => {
    end();
    if (arrived > MAX_BODY_BYTES) listener.done(undefined);
    else listener.late();
  });
  response.onData((chunk, isLast) => {
    const before = arrived;
    arrived += chunk.byteLength;
    if (isTooMuch(++pieces, arrived, MAX_SMALL_PIECES)) {
      end();
      if (!listener.client.over) response.close();
      return;
    }
    if (isOver) return;
    pace.moved(arrived);
    if (arrived > MAX_BODY_BYTES) drop();
    if (isDropped) {
      if (!isLast && arrived <= MAX_READ_BODY_BYTES) return;
      end();
      listener.done(undefined);
      return;
    }
    if (isLast && before === 0 && !listener.keeps) {
      end();
      listener.done(new Uint8Array(chunk));
      return;
    }
    // the library detaches the chunk after this call; the buffer doubles, so a slow body costs no more copies
    if (!collected || arrived > collected.length) {
      const grown = arriving.take(Math.min(MAX_BODY_BYTES, 2 * arrived + 1024));
      collected?.copy(grown, 0, 0, before);
      hold(grown);
    }
    // it may have been the one to reject
    if (!collected) return;
    collected.set(new Uint8Array(chunk), before);
    if (!isLast) return;
    const body = collected.subarray(0, arrived);
    if (listener.keeps) pace.end();
    else end();
    listener.done(body);
  });
  return { drop, end };
}

/**
 * Discards a request body and calls back once when it has ended, exceeds `MAX_BODY_BYTES`, is late or arrives in many small
 * pieces; disconnects at far more of them. Must be called before the handler returns.
 */
export function discardBody(response: HttpResponse, client: Client, done: () => void): void {
  let bytes = 0;
  let pieces = 0;
  let isOver = false;
  const end = () => {
    if (isOver) return;
    isOver = true;
    clearTimer(timer);
    done();
  };
  const timer = setTimer(end, DISCARD_MS);
  response.onData((chunk, isLast) => {
    bytes += chunk.byteLength;
    pieces++;
    if (isLast || bytes > MAX_BODY_BYTES || isTooMuch(pieces, bytes, MAX_SMALL_PIECES_DISCARDED / 4)) end();
    if (isTooMuch(pieces, bytes, MAX_SMALL_PIECES_DISCARDED) && !client.over) response.close();
  });
}

function isTooMuch(pieces: number, bytes: number, maxSmallPieces: number): boolean {
  return bytes > MAX_ARRIVED_BYTES || (pieces > maxSmallPieces && bytes < SMALL_PIECE_BYTES * pieces);
}

/** Size of the pieces in which longer bodies are kept. */
const BACKLOG_PIECE_BYTES = 2 * 1024 * 1024;
/** Buffers of response bytes that the kernel has not taken. */
const leaving = new BufferPool([512 * 1024, BACKLOG_PIECE_BYTES], 32 * 1024 * 1024);
/**
 * Per-worker limit on buffered unsent bytes. When it is exceeded, the client of the API key with the most of them that has
 * waited longest is disconnected.
 */
export const MAX_BACKLOG_BYTES = 128 * 1024 * 1024;

/** The unsent rest of a response. */
export interface PendingWrite {
  readonly body: Body;
  /** of what the kernel takes, which its sender tells */
  readonly pace: Pace;
  /** buffers of the pool, released with the write */
  readonly copies: Buffer[];
  readonly disconnect: () => void;
}

/** those whose bytes do not belong to the caller */
const backlog = new HeldBytes<PendingWrite>();

/**
 * Keeps a body until `release`, bytes as a copy if they may be overwritten. Calls `disconnect` if the client is too
 * slow, or if the buffer is full and it is the client to disconnect; the caller must then return the bytes.
 */
export function keep(
  body: Body,
  mayBeOverwritten: boolean,
  owner: string,
  disconnect: () => void,
): PendingWrite {
  const heldBytes = mayBeOverwritten ? body.length : 0;
  while (backlog.total > 0 && backlog.total + heldBytes > MAX_BACKLOG_BYTES)
    backlog.firstOfLargest()!.disconnect();
  const copies: Buffer[] = [];
  if (mayBeOverwritten && body instanceof Uint8Array)
    for (let at = 0; at < body.length; at += BACKLOG_PIECE_BYTES)
      copies.push(leaving.copy(body.subarray(at, at + BACKLOG_PIECE_BYTES)));
  const kept = {
    body: copies.length > 1 ? new LargeBody(copies) : (copies[0] ?? body),
    copies,
    disconnect,
    pace: new Pace(RESPONSE_WINDOW_MS, disconnect),
  };
  if (heldBytes > 0) backlog.set(kept, owner, heldBytes);
  return kept;
}

/** Releases what `keep` returned. Its bytes must not be read afterwards. */
export function release(pending: PendingWrite): void {
  pending.pace.end();
  backlog.delete(pending);
  for (const copy of pending.copies.splice(0)) leaving.release(copy);
}

/**
 * Writes the part of a body that the kernel has not taken yet, as far as it takes it. The body begins at offset `start` of a
 * response of `total` bytes. Returns as `tryEnd` does.
 */
export function writeOn(
  response: HttpResponse,
  body: Body,
  start: number,
  total: number,
): [boolean, boolean] {
  while (true) {
    const at = response.getWriteOffset() - start;
    const bytes = body instanceof Uint8Array ? body.subarray(at) : body.bytesFrom(at);
    const [ok, done] = response.tryEnd(bytes, total);
    if (!ok || done) return [ok, done];
  }
}
