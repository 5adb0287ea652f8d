/**
 * Sends a body to the HTTP library as fast as it is read. Argument: its length in bytes. Prints how many of them the library
 * has read at most by one system call.
 */
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { App } from '../../src/http/server.ts';
import { RawConnection } from '../support/raw-connection.ts';

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
  const connection = new RawConnection(PORT);
  await connection.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${workerData}\r\n\r\n`);
  for (let sent = 0; sent < workerData; sent += PIECE.length) await connection.write(PIECE);
}
