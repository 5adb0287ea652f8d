/**
 * The limit: uWebSockets.js sends the same bytes for every request, with the headers of the service, after the body of a
 * POST. It checks no key and no id. `GET /length/N` sets the length of the responses of all processes. Arguments: port, number of
 * processes.
 */

import type { HttpResponse } from 'uWebSockets.js';
import cluster, { type Worker } from 'node:cluster';
import { App, silence } from '../../src/http/server.ts';

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

const [port, processes] = process.argv.slice(2).map(Number) as [number, number];
const setLength = (bytes: number) => {
  body = Buffer.alloc(bytes, 'x');
};

/** Forks the processes, passes on to all of them the length that one of them receives, and tells it when all have set it. */
function fork(): void {
  const workers = Array.from({ length: processes }, () => cluster.fork());
  let ready = 0;
  let set = 0;
  let asker: Worker | undefined;
  cluster.on('message', (from: Worker, message: number | 'ready' | 'set') => {
    if (message === 'ready' && ++ready === processes) console.log('ready');
    else if (message === 'set' && ++set === processes) asker!.send('all');
    else if (typeof message === 'number') {
      set = 0;
      asker = from;
      for (const worker of workers) worker.send(message);
    }
  });
}

let onAllSet = () => {};
function receive(message: number | 'all'): void {
  if (message === 'all') onAllSet();
  else {
    setLength(message);
    process.send!('set');
  }
}

const app = App()
  .get('/length/:bytes', (response, request) => {
    const bytes = Number(request.getParameter(0));
    if (!process.send) {
      setLength(bytes);
      response.end();
      return;
    }
    response.onAborted(() => {});
    onAllSet = () => response.cork(() => response.end());
    process.send(bytes);
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
  });

function listen(): void {
  process.on('message', receive);
  app.listen('127.0.0.1', port, (socket) => {
    if (socket && process.send) process.send('ready');
    else console.log(socket ? 'ready' : 'address already in use');
    if (!socket) process.exit(1);
  });
}

if (processes > 1 && cluster.isPrimary) fork();
else listen();
