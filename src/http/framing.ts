import type { HttpRequest } from 'uWebSockets.js';
import { MAX_BODY_BYTES } from './body.ts';

/**
 * How a request tells where its body ends. 'none': its length is 0. 'tooLong': its length is above `MAX_BODY_BYTES`.
 * 'ambiguous': two readers may find two ends. 'unsaid': it tells nothing, so it has no body, unless the HTTP library has
 * overlooked a header.
 */
export type Framing = 'none' | 'length' | 'tooLong' | 'chunked' | 'ambiguous' | 'unsaid';

/** True when a GET or HEAD says that a body follows it, in any way. */
export function hasBody(request: HttpRequest): boolean {
  if (request.getHeader('content-length') === '' && request.getHeader('transfer-encoding') === '')
    return false;
  return framingOf(request) !== 'none';
}

/** The content coding of the body of the request that `framingOf` judged last; undefined: none. */
export let bodyCoding: string | undefined;

let headers = 0;
let length: string | undefined;
let coding: string | undefined;

function take(name: string, value: string): void {
  if (name === 'content-length') length = value;
  else if (name === 'transfer-encoding') coding = value;
  else {
    if (name === 'content-encoding' && value !== '' && value.toLowerCase() !== 'identity') bodyCoding = value;
    return;
  }
  headers++;
}

/** The HTTP library acts on the first of repeated headers, and takes each transfer coding for chunks. */
export function framingOf(request: HttpRequest): Framing {
  headers = 0;
  length = undefined;
  coding = undefined;
  bodyCoding = undefined;
  request.forEach(take);
  if (headers === 0) return 'unsaid';
  if (headers > 1) return 'ambiguous';
  if (coding !== undefined) return (coding as string).toLowerCase() === 'chunked' ? 'chunked' : 'ambiguous';
  if (!/^\d+$/.test(length!)) return 'ambiguous';
  const bytes = Number(length);
  if (bytes === 0) return 'none';
  return bytes > MAX_BODY_BYTES ? 'tooLong' : 'length';
}
