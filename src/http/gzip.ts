import { crc32 } from 'node:zlib';
import { monotonicMs } from '../lib/clock.ts';
import type { EventLoop } from '../lib/event-loop.ts';
import { WaitQueue } from '../lib/wait-queue.ts';
import { instantiate } from '../wasm/deflate.ts';

/** RFC 1952, 2.3: DEFLATE, no flags, no time, the fastest algorithm, any system. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255]);
const TRAILER_BYTES = 8;
/** Up to the end of the module's output. A page is resident only after its first use. */
const MEMORY_BYTES = 0x150000;
const EMPTY = Buffer.alloc(0);
/** Owner of the work of compressing, which the bodies' own owners share. */
const COMPRESSION = 'compression';
/** Pieces that are compressed in a turn, and its size: a change of the work empties the caches of the processor. */
const PIECES_PER_TURN = 4;
const TURN_SIZE = 32 * 1024;
/** Bytes that an owner may have compressed before the next owner is served: a batch of 1000. */
const QUANTUM_BYTES = 1024 * 1024;

/** Compresses one body at a time to gzip (RFC 1952). */
class GzipEncoder {
  readonly #wasm: ReturnType<typeof instantiate>['wasm'];
  readonly #input: Uint8Array;
  readonly #output: Buffer;

  constructor() {
    const { wasm, memory } = instantiate(MEMORY_BYTES);
    this.#wasm = wasm;
    this.#input = new Uint8Array(memory.buffer, wasm.INPUT.value, wasm.PIECE_BYTES.value);
    this.#output = Buffer.from(memory.buffer, wasm.OUTPUT.value, wasm.OUTPUT_BYTES.value);
  }

  /** Compresses 128 KiB of the body in each step, which takes 0.2 ms for hotels and up to 2 ms for noise. Returns the whole. */
  *encode(body: Uint8Array): Generator<undefined, Buffer> {
    const parts = [HEADER];
    let checksum = 0;
    let start = 0;
    this.#wasm.begin(body.length);
    for (;;) {
      const piece = body.subarray(start, start + this.#input.length);
      start += piece.length;
      const isLast = start === body.length;
      this.#input.set(piece);
      checksum = crc32(piece, checksum);
      const written = this.#wasm.compress(piece.length, isLast ? 1 : 0);
      parts.push(Buffer.from(this.#output.subarray(0, written)));
      if (isLast) break;
      yield;
    }
    const trailer = Buffer.alloc(TRAILER_BYTES);
    trailer.writeUInt32LE(checksum, 0);
    trailer.writeUInt32LE(body.length, 4);
    return Buffer.concat([...parts, trailer]);
  }
}

/** A stream keeps state between its pieces, so bodies compressed at once have an encoder of their own. */
const [atOnce, inPieces] = [new GzipEncoder(), new GzipEncoder()];

/** Returns the compressed body. */
export function gzipNow(body: Uint8Array): Buffer {
  const steps = atOnce.encode(body);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Whoever waits for a compressed body. */
export interface Recipient {
  /** the API key whose share is used */
  readonly owner: string;
  /** true when the client has disconnected */
  readonly over: boolean;
}

interface WaitingBody {
  body: Uint8Array;
  recipient: Recipient;
  settle: PromiseWithResolvers<Buffer>;
}

const waiting = new WaitQueue<WaitingBody>(0, QUANTUM_BYTES);
let current: (WaitingBody & { steps: Generator<undefined, Buffer> }) | undefined;
let isQueued = false;

/**
 * Compresses long bodies one after the other, in turns of the event loop. Owners are served in turn. The result is empty if
 * the client disconnects meanwhile. A body must not change until it is compressed.
 */
export function gzip(body: Uint8Array, recipient: Recipient, eventLoop: EventLoop): Promise<Buffer> {
  const settle = Promise.withResolvers<Buffer>();
  waiting.append(recipient.owner, { body, recipient, settle }, body.length, monotonicMs());
  proceed(eventLoop);
  return settle.promise;
}

function proceed(eventLoop: EventLoop): void {
  if (isQueued || (!current && waiting.length === 0)) return;
  isQueued = true;
  eventLoop.append(COMPRESSION, TURN_SIZE, () => {
    for (let i = 0; i < PIECES_PER_TURN && (current || waiting.length > 0); i++) compressPiece();
    isQueued = false;
    proceed(eventLoop);
  });
}

function compressPiece(): void {
  if (!current) {
    const { item } = waiting.shift()!;
    current = { ...item, steps: inPieces.encode(item.body) };
  }
  const { recipient, settle, steps } = current;
  try {
    const step = recipient.over ? { done: true as const, value: EMPTY } : steps.next();
    if (!step.done) return;
    settle.resolve(step.value);
  } catch (error) {
    settle.reject(error);
  }
  current = undefined;
}
