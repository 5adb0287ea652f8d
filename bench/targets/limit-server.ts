/**
 * The limit: uWebSockets.js sends the same bytes for every request, with the headers of the service, after the body of a
 * POST. It checks no key and no id. `GET /length/N` sets the length of the responses. Argument: port.
 */
import type { HttpResponse } from 'uWebSockets.js';
import { App, silence } from '../../src/http/library.ts';

const MAX_SINGLE_WRITE_BYTES = 16_384;
/** One call writes all headers. */
const HEAD = Buffer.from(
  '200 OK\r\ncontent-type: application/json\r\ncache-control: private, no-cache\r\n' +
    'vary: accept-encoding, x-api-key\r\nkeep-alive: timeout=7\r\nx-request-id: AAAAAAAAAAAA000000\r\netag: "AAAAAAAAAAAA"',
);
let body = Buffer.alloc(0);

// like the service: no header of the library
silence();

function answer(response: HttpResponse): void {
  response.writeStatus(HEAD);
  if (body.length <= MAX_SINGLE_WRITE_BYTES) {
    response.end(body);
    return;
  }
  if (response.tryEnd(body, body.length)[1]) return;
  response.onWritable((offset) => response.tryEnd(body.subarray(offset), body.length)[0]);
}

App()
  .get('/length/:bytes', (response, request) => {
    body = Buffer.alloc(Number(request.getParameter(0)), 'x');
    response.end();
  })
  .get('/*', (response) => {
    if (body.length > MAX_SINGLE_WRITE_BYTES) response.onAborted(() => {});
    answer(response);
  })
  .post('/*', (response) => {
    response.onAborted(() => {});
    response.onData((_, isLast) => {
      if (isLast) response.cork(() => answer(response));
    });
  })
  .listen('127.0.0.1', Number(process.argv[2]), (socket) => {
    console.log(socket ? 'ready' : 'address already in use');
    if (!socket) process.exit(1);
  });
