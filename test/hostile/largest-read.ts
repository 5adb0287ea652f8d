/**
 * Sends a body to the HTTP library as fast as it is read. Argument: its length in bytes. Prints how many of them the library
 * has read at most by one system call.
 */
import { connect } from 'node:net';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { App } from '../../src/http/library.ts';

const PORT = 8080;
const PIECE = Buffer.alloc(2 ** 20, '0');

if (isMainThread) {
  const bytes = Number(process.argv[2]);
  let largest = 0;
  App()
    .post('/*', (response) => {
      response.onAborted(() => {});
      response.onData((chunk, isLast) => {
        largest = Math.max(largest, chunk.byteLength);
        if (!isLast) return;
        console.log(largest);
        process.exit();
      });
    })
    .listen(PORT, () => {
      new Worker(new URL(import.meta.url), { workerData: bytes });
    });
} else {
  const socket = connect(PORT, '127.0.0.1');
  socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${workerData}\r\n\r\n`);
  let left: number = workerData;
  const send = () => {
    let isTaken = true;
    for (; left > 0 && isTaken; left -= PIECE.length) isTaken = socket.write(PIECE);
    if (left > 0) socket.once('drain', send);
  };
  send();
}
