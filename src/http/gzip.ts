import { setImmediate as nextIteration } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { instantiate } from '../wasm/deflate.ts';

/** RFC 1952, 2.3: DEFLATE, no flags, no time, the fastest algorithm, any system. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255]);
const TRAILER_BYTES = 8;
/** a page is resident only after its first use */
const MEMORY_BYTES = 0x150000;

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

  /** Compresses a piece of the body in each step, 128 KiB in about 0.2 ms. Returns the whole. */
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

/** A short body does not wait for a long one between two of its pieces. */
const [atOnce, inTurns] = [new GzipEncoder(), new GzipEncoder()];

/** Returns the compressed body. */
export function gzipNow(body: Uint8Array): Buffer {
  const steps = atOnce.encode(body);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Settles when no body waits. */
let before: Promise<unknown> = Promise.resolve();

/**
 * Compresses one piece in an event-loop iteration, and one body after the other. A body must not change until it is
 * compressed.
 */
export function gzip(body: Uint8Array): Promise<Buffer> {
  const compressed = before.then(() => encodeInTurns(body));
  before = compressed.catch(() => undefined);
  return compressed;
}

async function encodeInTurns(body: Uint8Array): Promise<Buffer> {
  const steps = inTurns.encode(body);
  for (;;) {
    await nextIteration();
    const step = steps.next();
    if (step.done) return step.value;
  }
}
