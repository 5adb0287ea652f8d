import type { HttpRequest } from 'uWebSockets.js';

let reading: RequestHeaders;

/**
 * The request headers that the service reads; undefined: absent. Of repeated headers the first counts. One pass over all
 * of them finds repeated ones of the framing too. An empty first one would hide a body: the HTTP library would take its bytes
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
  connection: string | undefined;
  hosts = 0;
  /** number of headers that frame a body */
  framings = 0;
  /** true if the body has a content coding */
  isCoded = false;

  constructor(request: HttpRequest) {
    reading = this;
    request.forEach(take);
  }

  /** Returns true if the client wants the connection to be closed, which the HTTP library does after the response. */
  get wantsClose(): boolean {
    return this.connection?.toLowerCase() === 'close';
  }
}

function take(name: string, value: string): void {
  const headers = reading;
  switch (name) {
    case 'host':
      headers.hosts++;
      headers.host ??= value;
      return;
    case 'x-api-key':
      headers.apiKey ??= value;
      return;
    case 'traceparent':
      headers.traceParent ??= value;
      return;
    case 'x-request-id':
      headers.requestId ??= value;
      return;
    case 'if-none-match':
      headers.ifNoneMatch ??= value;
      return;
    case 'accept-encoding':
      headers.acceptEncoding ??= value;
      return;
    case 'connection':
      headers.connection ??= value;
      return;
    case 'content-encoding':
      headers.isCoded ||= value !== '' && value.toLowerCase() !== 'identity';
      return;
    case 'content-length':
      headers.framings++;
      headers.contentLength ??= value;
      return;
    case 'transfer-encoding':
      headers.framings++;
      headers.transferEncoding ??= value;
  }
}
