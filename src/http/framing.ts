import { publicErrors } from '../errors.ts';
import { MAX_BODY_BYTES, MAX_READ_BODY_BYTES } from './body.ts';
import type { Exchange } from './exchange.ts';
import { isHost } from './host.ts';
import type { RequestHeaders } from './request-headers.ts';

/**
 * Framing of a request body. 'none': length 0. 'tooLong': length above `MAX_BODY_BYTES`. 'ambiguous': two readers may
 * find different ends. 'absent': no framing header, so no body, unless the HTTP library overlooked a header.
 */
type Framing = 'none' | 'length' | 'tooLong' | 'chunked' | 'ambiguous' | 'absent';

/** Checks a GET or HEAD; rejects one without one valid host, or that declares a body in any way. */
export function checkBodiless(exchange: Exchange): boolean {
  if (!checkHost(exchange)) return false;
  const framing = framingOf(exchange.headers);
  if (framing === 'none' || framing === 'absent') return true;
  exchange.rejectAndClose(publicErrors.bodyNotAllowed);
  return false;
}

/**
 * Checks a request whose method may have a body. Returns undefined if it is rejected, because it has not one valid host,
 * or its framing is ambiguous.
 */
export function checkFraming(exchange: Exchange): Exclude<Framing, 'ambiguous'> | undefined {
  if (!checkHost(exchange)) return undefined;
  const framing = framingOf(exchange.headers);
  if (framing === 'ambiguous') {
    exchange.rejectAndClose(publicErrors.framingAmbiguous);
    return undefined;
  }
  // the library reads on for ever
  const isEndless = framing === 'tooLong' && Number(exchange.headers.contentLength) > MAX_READ_BODY_BYTES;
  // the library takes trailers, and what a header hides from it, for the next request
  exchange.closesConnection = isEndless || framing === 'chunked' || framing === 'absent';
  return framing;
}

/** Rejects a request without one valid host. */
function checkHost(exchange: Exchange): boolean {
  const { hosts, host } = exchange.headers;
  if (hosts === 1 && isHost(host!)) return true;
  exchange.rejectAndClose(publicErrors.hostInvalid);
  return false;
}

/** The HTTP library uses the first of repeated headers, and treats each transfer coding as chunked. */
function framingOf({ framings, contentLength, transferEncoding }: RequestHeaders): Framing {
  if (framings === 0) return 'absent';
  if (framings > 1) return 'ambiguous';
  if (transferEncoding !== undefined)
    return transferEncoding.toLowerCase() === 'chunked' ? 'chunked' : 'ambiguous';
  if (!/^\d+$/.test(contentLength!)) return 'ambiguous';
  const bytes = Number(contentLength);
  if (bytes === 0) return 'none';
  return bytes > MAX_BODY_BYTES ? 'tooLong' : 'length';
}
