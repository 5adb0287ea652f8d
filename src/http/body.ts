import type { HttpResponse } from 'uWebSockets.js';
import { clearTimer, every, setTimer, type Timer } from '../lib/clock.ts';

export const MAX_BODY_BYTES = 1024 * 1024;

/** Time to wait for the body of a rejected request. */
const DISCARD_MS = 250;

/**
 * Minimum bytes and number of checks: a body must end, or deliver this much in so many checks. The HTTP library
 * itself disconnects clients that send nothing for 8 s, without a response.
 */
const MIN_BYTES = 160 * 1024;
const CHECKS = 14;
const CHECK_EVERY_MS = 500;

interface Arrival {
  checksLeft: number;
  late: () => void;
}

/** Bodies that have not ended, those of aborted requests included until they time out. */
const arriving = new Set<Arrival>();
let checking: Timer | undefined;

function rejectLate(): void {
  for (const arrival of arriving) {
    if (--arrival.checksLeft >= 0) continue;
    arriving.delete(arrival);
    arrival.late();
  }
  if (arriving.size > 0) return;
  clearTimer(checking);
  checking = undefined;
}

/**
 * Collects a request body and passes it on once: the whole body, or undefined as soon as it exceeds `MAX_BODY_BYTES`.
 * Calls `late` instead if it arrives too slowly. Must be called before the handler returns. The bytes are valid
 * during the call only.
 */
export function collectBody(
  response: HttpResponse,
  done: (body: Uint8Array | undefined) => void,
  late: () => void,
): void {
  let collected: Buffer | undefined;
  let length = 0;
  let isOver = false;
  let nextLength = MIN_BYTES;
  const arrival: Arrival = {
    checksLeft: CHECKS,
    late: () => {
      isOver = true;
      collected = undefined;
      late();
    },
  };
  arriving.add(arrival);
  checking ??= every(rejectLate, CHECK_EVERY_MS);
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
    // the library detaches the chunk after this call; the buffer doubles, so a slow body costs no more copies
    if (!collected || length + chunk.byteLength > collected.length) {
      const grown = Buffer.allocUnsafe(Math.min(MAX_BODY_BYTES, 2 * (length + chunk.byteLength) + 1024));
      collected?.copy(grown, 0, 0, length);
      collected = grown;
    }
    collected.set(new Uint8Array(chunk), length);
    length += chunk.byteLength;
    if (length >= nextLength) {
      nextLength = length + MIN_BYTES;
      arrival.checksLeft = CHECKS;
    }
    if (isLast) done(collected.subarray(0, length));
  });
}

/**
 * Discards a request body and calls back once when it has ended, exceeds `MAX_BODY_BYTES` or is late. Must be called
 * before the handler returns.
 */
export function discardBody(response: HttpResponse, done: () => void): void {
  let length = 0;
  const end = () => {
    clearTimer(timer);
    length = Number.NEGATIVE_INFINITY;
    done();
  };
  const timer = setTimer(end, DISCARD_MS);
  response.onData((chunk, isLast) => {
    length += chunk.byteLength;
    if (length >= 0 && (isLast || length > MAX_BODY_BYTES)) end();
  });
}
