import type { HttpRequest } from 'uWebSockets.js';
import { MAX_BODY_BYTES } from './body.ts';
import { CONTENT_LENGTH, TRANSFER_ENCODING } from './header-names.ts';

/**
 * Framing of a request body. 'none': length 0. 'tooLong': length above `MAX_BODY_BYTES`. 'ambiguous': two readers may
 * find different ends. 'absent': no framing header, so no body, unless the HTTP library overlooked a header.
 */
export type Framing = 'none' | 'length' | 'tooLong' | 'chunked' | 'ambiguous' | 'absent';

/** Returns true if a GET or HEAD declares a body in any way. */
export function hasBody(request: HttpRequest): boolean {
  if (request.getHeader(CONTENT_LENGTH) === '' && request.getHeader(TRANSFER_ENCODING) === '') return false;
  return framingOf(request) !== 'none';
}

/** Content coding of the request body that `framingOf` read last; undefined: none. */
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

/** The HTTP library uses the first of repeated headers, and treats each transfer coding as chunked. */
export function framingOf(request: HttpRequest): Framing {
  headers = 0;
  length = undefined;
  coding = undefined;
  bodyCoding = undefined;
  request.forEach(take);
  if (headers === 0) return 'absent';
  if (headers > 1) return 'ambiguous';
  if (coding !== undefined) return (coding as string).toLowerCase() === 'chunked' ? 'chunked' : 'ambiguous';
  if (!/^\d+$/.test(length!)) return 'ambiguous';
  const bytes = Number(length);
  if (bytes === 0) return 'none';
  return bytes > MAX_BODY_BYTES ? 'tooLong' : 'length';
}
