import type { HttpRequest } from 'uWebSockets.js';

/**
 * How a request tells where its body ends. 'none': its length is 0. 'ambiguous': two readers may find two ends.
 * 'unsaid': it tells nothing, so it has no body, unless the HTTP library has overlooked a header.
 */
export type Framing = 'none' | 'length' | 'chunked' | 'ambiguous' | 'unsaid';

/** True when a GET or HEAD says that a body follows it, in any way. */
export function hasBody(request: HttpRequest): boolean {
  if (request.getHeader('content-length') === '' && request.getHeader('transfer-encoding') === '')
    return false;
  return framingOf(request) !== 'none';
}

/** The HTTP library acts on the first of repeated headers, and takes each transfer coding for chunks. */
export function framingOf(request: HttpRequest): Framing {
  let headers = 0;
  let length: string | undefined;
  let coding: string | undefined;
  request.forEach((name, value) => {
    if (name === 'content-length') length = value;
    else if (name === 'transfer-encoding') coding = value;
    else return;
    headers++;
  });
  if (headers === 0) return 'unsaid';
  if (headers > 1) return 'ambiguous';
  if (coding !== undefined) return coding.toLowerCase() === 'chunked' ? 'chunked' : 'ambiguous';
  if (!/^\d+$/.test(length!)) return 'ambiguous';
  return Number(length) === 0 ? 'none' : 'length';
}
