/**
 * Names of request headers, as ArrayBuffers: uWebSockets.js reads one in place, but converts and copies a string. A call of
 * `getHeader` takes 35 ns instead of 68, and a GET makes four.
 */
export const ACCEPT_ENCODING = bytesOf('accept-encoding');
export const API_KEY = bytesOf('x-api-key');
export const IF_NONE_MATCH = bytesOf('if-none-match');
export const REQUEST_ID = bytesOf('x-request-id');
export const TRACEPARENT = bytesOf('traceparent');

function bytesOf(name: string): ArrayBuffer {
  // a small Buffer is a view of a larger memory
  return new Uint8Array(Buffer.from(name)).buffer;
}
