import { connect } from 'node:net';

/**
 * Process that sends requests at a fixed rate, pipelined on a few connections, and counts the responses by status. It
 * receives its settings once, and reports at the end.
 */
export interface Flood {
  port: number;
  perSecond: number;
  seconds: number;
  /** sent in order, repeatedly */
  requests: string[];
  /** above one only if responses are made in the same event-loop iteration */
  pipelined: number;
  connections: number;
}

export interface Flooded {
  sent: number;
  /** responses by status */
  answers: Record<string, number>;
  /** connections that the server closed */
  closed: number;
  tookMs: number;
}

process.once('message', (flood: Flood) =>
  run(flood).then((flooded) => process.send!(flooded, () => process.exit())),
);

async function run({ port, perSecond, seconds, requests, pipelined, connections }: Flood): Promise<Flooded> {
  const met: Flooded = { sent: 0, answers: {}, closed: 0, tookMs: 0 };
  const beganMs = performance.now();
  const untilMs = beganMs + seconds * 1_000;
  /** number of requests that may have been sent by now */
  const due = () => ((performance.now() - beganMs) * perSecond) / 1_000;
  const client = (): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', noDelay: true });
      let waiting = 0;
      let tail = '';
      let ended = false;
      const send = () => {
        if (socket.destroyed || waiting > 0) return;
        if (performance.now() > untilMs) {
          ended = true;
          socket.destroy();
          return;
        }
        const room = Math.floor(due()) - met.sent;
        if (room < pipelined) {
          setTimeout(send, 2);
          return;
        }
        waiting = pipelined;
        socket.write(
          Array.from({ length: pipelined }, () => requests[met.sent++ % requests.length]).join(''),
        );
      };
      socket.on('connect', send);
      socket.on('data', (chunk) => {
        const text = tail + chunk.toString('latin1');
        const found = [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)];
        for (const [, status] of found) met.answers[status!] = (met.answers[status!] ?? 0) + 1;
        const last = found.at(-1);
        // the start of a response may be truncated
        tail = text.slice(Math.max(text.length - 11, last ? last.index + 12 : 0));
        waiting -= found.length;
        if (waiting <= 0) setImmediate(send);
      });
      socket.on('error', () => {});
      socket.on('close', () => {
        if (ended || performance.now() > untilMs) return resolve();
        met.closed++;
        resolve(client());
      });
    });
  await Promise.all(Array.from({ length: connections }, client));
  met.tookMs = performance.now() - beganMs;
  return met;
}
