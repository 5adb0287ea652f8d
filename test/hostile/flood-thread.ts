/** Thread that sends requests at a fixed rate, pipelined on a few connections, and counts the responses by status. */
import { workerData } from 'node:worker_threads';
import { HttpConnection } from '../../bench/load/http-connection.ts';
import { serveLoad } from './load-thread.ts';

/** Settings of the thread. */
export interface FloodOptions {
  port: number;
  perSecond: number;
  seconds: number;
  /** sent in order, repeatedly */
  requests: string[];
  /** above one only if responses are made in the same event-loop iteration */
  pipelined: number;
  connections: number;
}

export interface FloodResult {
  sent: number;
  /** responses by status */
  answers: Record<string, number>;
  /** connections that the server closed */
  closed: number;
  tookMs: number;
}

let running: Promise<FloodResult>;
serveLoad(
  () => {
    running = run(workerData);
  },
  () => running,
);

async function run({
  port,
  perSecond,
  seconds,
  requests,
  pipelined,
  connections,
}: FloodOptions): Promise<FloodResult> {
  const result: FloodResult = { sent: 0, answers: {}, closed: 0, tookMs: 0 };
  const beganMs = performance.now();
  const untilMs = beganMs + seconds * 1_000;
  /** number of requests that may have been sent by now */
  const due = () => ((performance.now() - beganMs) * perSecond) / 1_000;
  const client = (): Promise<void> =>
    new Promise((resolve) => {
      let pending = 0;
      const send = () => {
        if (http.isClosed) return;
        if (performance.now() > untilMs) {
          http.close();
          return resolve();
        }
        if (Math.floor(due()) - result.sent < pipelined) {
          setTimeout(send, 2);
          return;
        }
        pending = pipelined;
        http.send(
          Array.from({ length: pipelined }, () => requests[result.sent++ % requests.length]).join(''),
        );
      };
      const http = new HttpConnection(
        { port },
        {
          onHead: (status) => {
            result.answers[status] = (result.answers[status] ?? 0) + 1;
          },
          onEnd: () => {
            if (--pending === 0) setImmediate(send);
          },
          onClose: () => {
            if (performance.now() > untilMs) return resolve();
            result.closed++;
            resolve(client());
          },
        },
      );
      send();
    });
  await Promise.all(Array.from({ length: connections }, client));
  result.tookMs = performance.now() - beganMs;
  return result;
}
