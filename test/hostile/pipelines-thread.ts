/** Thread of a client that pipelines requests without a key on many connections. */
import { workerData } from 'node:worker_threads';
import { HttpConnection } from '../../bench/load/http-connection.ts';
import { serveLoad } from './load-thread.ts';

export interface PipelineOptions {
  port: number;
  connections: number;
  bytesPerSecond: number;
  request: string;
}

/** Result of the thread. */
export interface PipelineCounts {
  sent: number;
  answered: number;
  /** connections that the server closed */
  closed: number;
  /** closed connections whose last response announced it */
  announced: number;
}

const BURST_BYTES = 128 * 1024;

const { port, connections, bytesPerSecond, request }: PipelineOptions = workerData;
const burst = request.repeat(Math.floor(BURST_BYTES / request.length));
const counts: PipelineCounts = { sent: 0, answered: 0, closed: 0, announced: 0 };
const clients: HttpConnection[] = [];

function open(i: number): void {
  let isAnnounced = false;
  clients[i] = new HttpConnection(
    { port },
    {
      onHead: (_, head) => {
        counts.answered++;
        isAnnounced = /\r\nconnection: close/i.test(head);
      },
      onEnd: () => {},
      onClose: () => {
        counts.closed++;
        if (isAnnounced) counts.announced++;
        open(i);
      },
    },
  );
}

let timer: NodeJS.Timeout;
serveLoad(
  () => {
    for (let i = 0; i < connections; i++) open(i);
    const beganMs = performance.now();
    let bursts = 0;
    timer = setInterval(() => {
      const due = ((performance.now() - beganMs) * bytesPerSecond) / 1000;
      for (; (bursts + 1) * burst.length < due; bursts++) {
        const client = clients[bursts % connections]!;
        if (client.isClosed || client.unsentBytes > 0) continue;
        counts.sent += burst.length / request.length;
        client.send(burst);
      }
    }, 5);
  },
  () => {
    clearInterval(timer);
    for (const client of clients) client.close();
    return counts;
  },
);
