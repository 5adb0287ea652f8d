import type { HttpRequest } from 'uWebSockets.js';
import { publicErrors } from '../errors.ts';
import { MAX_BODY_BYTES } from './body.ts';
import type { Exchange } from './exchange.ts';
import { CONTENT_LENGTH, TRANSFER_ENCODING } from './header-names.ts';

/**
 * Framing of a request body. 'none': length 0. 'tooLong': length above `MAX_BODY_BYTES`. 'ambiguous': two readers may
 * find different ends. 'absent': no framing header, so no body, unless the HTTP library overlooked a header.
 */
type Framing = 'none' | 'length' | 'tooLong' | 'chunked' | 'ambiguous' | 'absent';

interface ReadFraming {
  framing: Framing;
  /** true if the body has a content coding */
  isCoded: boolean;
}

/** Checks a GET or HEAD; rejects one that declares a body in any way. */
export function isBodiless(exchange: Exchange, request: HttpRequest): boolean {
  const isDeclared = request.getHeader(CONTENT_LENGTH) !== '' || request.getHeader(TRANSFER_ENCODING) !== '';
  if (!isDeclared || readFraming(request).framing === 'none') return true;
  exchange.rejectAndClose(publicErrors.bodyNotAllowed);
  return false;
}

/** Checks the framing of a request whose method may have a body; rejects it if it is ambiguous. */
export function checkFraming(exchange: Exchange, request: HttpRequest): ReadFraming {
  const read = readFraming(request);
  if (read.framing === 'ambiguous') exchange.rejectAndClose(publicErrors.framingAmbiguous);
  // the library takes trailers, and what a header hides from it, for the next request
  else exchange.closesConnection = read.framing === 'chunked' || read.framing === 'absent';
  return read;
}

let count = 0;
let length = '';
let transferCoding = '';
let isCoded = false;

function take(name: string, value: string): void {
  if (name === 'content-length') length = value;
  else if (name === 'transfer-encoding') transferCoding = value;
  else {
    if (name === 'content-encoding' && value !== '' && value.toLowerCase() !== 'identity') isCoded = true;
    return;
  }
  count++;
}

/** The HTTP library uses the first of repeated headers, and treats each transfer coding as chunked. */
function readFraming(request: HttpRequest): ReadFraming {
  count = 0;
  length = '';
  transferCoding = '';
  isCoded = false;
  request.forEach(take);
  return { framing: framing(), isCoded };
}

function framing(): Framing {
  if (count === 0) return 'absent';
  if (count > 1) return 'ambiguous';
  if (transferCoding !== '') return transferCoding.toLowerCase() === 'chunked' ? 'chunked' : 'ambiguous';
  if (!/^\d+$/.test(length)) return 'ambiguous';
  const bytes = Number(length);
  if (bytes === 0) return 'none';
  return bytes > MAX_BODY_BYTES ? 'tooLong' : 'length';
}
