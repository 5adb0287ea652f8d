import type { HttpResponse } from 'uWebSockets.js';

/** Largest request body that is read. */
export const MAX_BODY_BYTES = 1024 * 1024;

/** How long the body of a refused request is waited for. */
const DISCARD_MS = 250;

/**
 * A body must end, or bring this much, in so many looks. The HTTP library disconnects those that bring it in no 8 s,
 * without a response.
 */
const LEAST_BYTES = 160 * 1024;
const LOOKS = 14;
const LOOK_EVERY_MS = 500;

interface Arrival {
  looksLeft: number;
  late: () => void;
}

/** Bodies that have not ended; of requests that were aborted too, until they are late. */
const arriving = new Set<Arrival>();
let looking: NodeJS.Timeout | undefined;

function rejectLate(): void {
  for (const arrival of arriving) {
    if (--arrival.looksLeft >= 0) continue;
    arriving.delete(arrival);
    arrival.late();
  }
  if (arriving.size > 0) return;
  clearInterval(looking);
  looking = undefined;
}

/**
 * Collects a request's body and hands it over once: the whole of it, or undefined as soon as it is larger than
 * `MAX_BODY_BYTES`; calls `late` instead where it comes too slowly. Must be called before the handler returns. The bytes
 * are valid during the call only.
 */
export function collectBody(
  response: HttpResponse,
  done: (body: Uint8Array | undefined) => void,
  late: () => void,
): void {
  let collected: Buffer | undefined;
  let length = 0;
  let isOver = false;
  let nextLength = LEAST_BYTES;
  const arrival: Arrival = {
    looksLeft: LOOKS,
    late: () => {
      isOver = true;
      collected = undefined;
      late();
    },
  };
  arriving.add(arrival);
  looking ??= setInterval(rejectLate, LOOK_EVERY_MS);
  response.onData((chunk, isLast) => {
    if (isOver) return;
    if (length + chunk.byteLength > MAX_BODY_BYTES) {
      arriving.delete(arrival);
      isOver = true;
      collected = undefined;
      done(undefined);
      return;
    }
    if (isLast) arriving.delete(arrival);
    if (isLast && length === 0) {
      done(new Uint8Array(chunk));
      return;
    }
    // the chunk is detached after this call; room grows by doubling, so a body that trickles in costs no more
    if (!collected || length + chunk.byteLength > collected.length) {
      const grown = Buffer.allocUnsafe(Math.min(MAX_BODY_BYTES, 2 * (length + chunk.byteLength) + 1024));
      collected?.copy(grown, 0, 0, length);
      collected = grown;
    }
    collected.set(new Uint8Array(chunk), length);
    length += chunk.byteLength;
    if (length >= nextLength) {
      nextLength = length + LEAST_BYTES;
      arrival.looksLeft = LOOKS;
    }
    if (isLast) done(collected.subarray(0, length));
  });
}

/**
 * Reads a request's body and keeps nothing; calls back once, when the body has ended, is larger than `MAX_BODY_BYTES`
 * or is late. Must be called before the handler returns.
 */
export function discardBody(response: HttpResponse, done: () => void): void {
  let length = 0;
  const end = () => {
    clearTimeout(timer);
    length = Number.NEGATIVE_INFINITY;
    done();
  };
  const timer = setTimeout(end, DISCARD_MS);
  response.onData((chunk, isLast) => {
    length += chunk.byteLength;
    if (length >= 0 && (isLast || length > MAX_BODY_BYTES)) end();
  });
}
