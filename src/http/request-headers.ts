import type { HttpRequest } from 'uWebSockets.js';

let reading: RequestHeaders;

/**
 * The request headers that the service reads; undefined: absent. Of repeated headers the first counts. One pass over all
 * of them finds repeated ones of the framing too: an empty first one would hide a body, whose bytes the HTTP library takes
 * for the next request on a connection that a proxy shares. The values can be read after the handler returns.
 */
export class RequestHeaders {
  acceptEncoding: string | undefined;
  apiKey: string | undefined;
  ifNoneMatch: string | undefined;
  requestId: string | undefined;
  traceParent: string | undefined;
  host: string | undefined;
  contentLength: string | undefined;
  transferEncoding: string | undefined;
  hosts = 0;
  /** number of headers that frame a body */
  framings = 0;
  /** true if the body has a content coding */
  isCoded = false;

  constructor(request: HttpRequest) {
    reading = this;
    request.forEach(take);
  }
}

/** Keeps a header; names of one length are told apart faster than all. */
function take(name: string, value: string): void {
  const headers = reading;
  switch (name.length) {
    case 4:
      if (name !== 'host') return;
      headers.hosts++;
      headers.host ??= value;
      return;
    case 9:
      if (name === 'x-api-key') headers.apiKey ??= value;
      return;
    case 11:
      if (name === 'traceparent') headers.traceParent ??= value;
      return;
    case 12:
      if (name === 'x-request-id') headers.requestId ??= value;
      return;
    case 13:
      if (name === 'if-none-match') headers.ifNoneMatch ??= value;
      return;
    case 14:
      if (name !== 'content-length') return;
      headers.framings++;
      headers.contentLength ??= value;
      return;
    case 15:
      if (name === 'accept-encoding') headers.acceptEncoding ??= value;
      return;
    case 16:
      if (name === 'content-encoding' && value !== '' && value.toLowerCase() !== 'identity')
        headers.isCoded = true;
      return;
    case 17:
      if (name !== 'transfer-encoding') return;
      headers.framings++;
      headers.transferEncoding ??= value;
  }
}
