import type { HttpResponse } from 'uWebSockets.js';
import { clearTimer, setTimer } from '../lib/clock.ts';
import { beginPace, endPace } from './pace.ts';

export const MAX_BODY_BYTES = 1024 * 1024;

/** Time to wait for the body of a rejected request. */
const DISCARD_MS = 250;
/** Less than the 8 s after which the HTTP library disconnects clients that send nothing, without a response. */
const WINDOW_MS = 7_000;

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
  let isOver = false;
  const end = () => {
    isOver = true;
    collected = undefined;
    endPace(arrival);
  };
  // of an aborted request until its time is over
  const arrival = beginPace(WINDOW_MS, () => {
    end();
    late();
  });
  response.onData((chunk, isLast) => {
    if (isOver) return;
    const before = arrival.bytes;
    arrival.bytes += chunk.byteLength;
    if (arrival.bytes > MAX_BODY_BYTES) {
      end();
      done(undefined);
      return;
    }
    if (isLast && before === 0) {
      end();
      done(new Uint8Array(chunk));
      return;
    }
    // the library detaches the chunk after this call; the buffer doubles, so a slow body costs no more copies
    if (!collected || arrival.bytes > collected.length) {
      const grown = Buffer.allocUnsafe(Math.min(MAX_BODY_BYTES, 2 * arrival.bytes + 1024));
      collected?.copy(grown, 0, 0, before);
      collected = grown;
    }
    collected.set(new Uint8Array(chunk), before);
    if (!isLast) return;
    const body = collected.subarray(0, arrival.bytes);
    end();
    done(body);
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
