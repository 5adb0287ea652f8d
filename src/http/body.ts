import type { HttpRequest, HttpResponse } from 'uWebSockets.js';

/** Largest request body that is read. */
export const MAX_BODY_BYTES = 1024 * 1024;

/** True when a request says that a body follows it. */
export function hasBody(request: HttpRequest): boolean {
  const length = request.getHeader('content-length');
  return (length !== '' && length !== '0') || request.getHeader('transfer-encoding') !== '';
}

/**
 * Collects a request's body and hands it over once: the whole of it, or undefined as soon as it is larger than
 * `MAX_BODY_BYTES`. Must be called before the handler returns. The bytes are valid during the call only.
 */
export function collectBody(response: HttpResponse, done: (body: Uint8Array | undefined) => void): void {
  let collected: Buffer | undefined;
  let length = 0;
  let tooLarge = false;
  response.onData((chunk, isLast) => {
    if (tooLarge) return;
    if (length + chunk.byteLength > MAX_BODY_BYTES) {
      tooLarge = true;
      collected = undefined;
      done(undefined);
      return;
    }
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
    if (isLast) done(collected.subarray(0, length));
  });
}
