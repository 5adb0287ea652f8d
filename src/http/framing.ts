import type { HttpRequest } from 'uWebSockets.js';
import { publicErrors } from '../errors.ts';
import { MAX_BODY_BYTES } from './body.ts';
import type { Exchange } from './exchange.ts';
import { isHost } from './host.ts';

/**
 * Framing of a request body. 'none': length 0. 'tooLong': length above `MAX_BODY_BYTES`. 'ambiguous': two readers may
 * find different ends. 'absent': no framing header, so no body, unless the HTTP library overlooked a header.
 */
type Framing = 'none' | 'length' | 'tooLong' | 'chunked' | 'ambiguous' | 'absent';

interface ReadFraming {
  framing: Exclude<Framing, 'ambiguous'>;
  /** true if the body has a content coding */
  isCoded: boolean;
}

/**
 * Checks a GET or HEAD; rejects one without one valid host, or that declares a body in any way. All headers are read: of
 * repeated ones `getHeader` finds the first, and an empty first one would hide a body, whose bytes the library takes for
 * the next request on a connection that a proxy shares.
 */
export function isBodiless(exchange: Exchange, request: HttpRequest): boolean {
  readHeaders(request);
  if (!hasHost(exchange)) return false;
  const read = framing();
  if (read === 'none' || read === 'absent') return true;
  exchange.rejectAndClose(publicErrors.bodyNotAllowed);
  return false;
}

/**
 * Checks a request whose method may have a body. Returns undefined if it is rejected, because it has not one valid host,
 * or its framing is ambiguous.
 */
export function checkFraming(exchange: Exchange, request: HttpRequest): ReadFraming | undefined {
  readHeaders(request);
  if (!hasHost(exchange)) return undefined;
  const read = framing();
  if (read === 'ambiguous') {
    exchange.rejectAndClose(publicErrors.framingAmbiguous);
    return undefined;
  }
  // the library takes trailers, and what a header hides from it, for the next request
  exchange.closesConnection = read === 'chunked' || read === 'absent';
  return { framing: read, isCoded };
}

/** Rejects a request without one valid host. */
function hasHost(exchange: Exchange): boolean {
  if (hosts === 1 && isHost(host)) return true;
  exchange.rejectAndClose(publicErrors.hostInvalid);
  return false;
}

let hosts = 0;
let host = '';
let count = 0;
let length = '';
let transferCoding = '';
let isCoded = false;

function take(name: string, value: string): void {
  if (name === 'content-length') length = value;
  else if (name === 'transfer-encoding') transferCoding = value;
  else {
    if (name === 'host') {
      hosts++;
      host = value;
    } else if (name === 'content-encoding' && value !== '' && value.toLowerCase() !== 'identity')
      isCoded = true;
    return;
  }
  count++;
}

/** The HTTP library uses the first of repeated headers, and treats each transfer coding as chunked. */
function readHeaders(request: HttpRequest): void {
  hosts = 0;
  host = '';
  count = 0;
  length = '';
  transferCoding = '';
  isCoded = false;
  request.forEach(take);
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
