/** Thread of a client that pipelines requests without a key on many connections, until it is stopped. */
import { connect, type Socket } from 'node:net';
import { parentPort, workerData } from 'node:worker_threads';

export interface Pipelines {
  port: number;
  connections: number;
  bytesPerSecond: number;
  request: string;
}

/** Result of the thread. */
export interface Piped {
  sent: number;
  answered: number;
  /** connections that the server closed */
  closed: number;
  /** closed connections whose last response announced it */
  announced: number;
}

const BURST_BYTES = 128 * 1024;

const { port, connections, bytesPerSecond, request }: Pipelines = workerData;
const burst = request.repeat(Math.floor(BURST_BYTES / request.length));
const met: Piped = { sent: 0, answered: 0, closed: 0, announced: 0 };
const sockets: Socket[] = [];
let ended = false;

function open(i: number): void {
  const socket = connect({ port, host: '127.0.0.1' });
  sockets[i] = socket;
  let tail = '';
  socket.on('data', (chunk) => {
    const text = tail + chunk.toString('latin1');
    met.answered += text.split('HTTP/1.1 ').length - 1 - (tail.split('HTTP/1.1 ').length - 1);
    tail = text.slice(-500);
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    if (ended) return;
    met.closed++;
    if (/connection: close\r\n/i.test(tail.slice(tail.lastIndexOf('HTTP/1.1 ')))) met.announced++;
    open(i);
  });
}

for (let i = 0; i < connections; i++) open(i);
const beganMs = performance.now();
let bursts = 0;
const timer = setInterval(() => {
  const due = ((performance.now() - beganMs) * bytesPerSecond) / 1000;
  for (; (bursts + 1) * burst.length < due; bursts++) {
    const socket = sockets[bursts % connections]!;
    if (socket.destroyed || socket.writableLength > 0) continue;
    met.sent += burst.length / request.length;
    socket.write(burst);
  }
}, 5);

parentPort!.once('message', () => {
  ended = true;
  clearInterval(timer);
  for (const socket of sockets) socket.destroy();
  parentPort!.postMessage(met);
});
