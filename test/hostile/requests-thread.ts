/** Thread of clients of one key, one connection each, that send the next request after the response to the last. */
import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { serveLoad } from './load-thread.ts';

export interface RequestOptions {
  port: number;
  key: string;
  /** number of connections */
  clients: number;
  /** requested in this order, repeatedly */
  paths: string[];
  /** if set, a client disconnects after a random time up to this, and connects again */
  abortsWithinMs?: number;
  /** each client sends one request only */
  isOnce?: boolean;
  /** each client requests one path of `GET /changes`, and then the next page of each */
  follows?: boolean;
}

/** Result of the thread. */
export interface RequestCounts {
  /** responses by status */
  statuses: Record<string, number>;
  /** requests without a response */
  failed: number;
  aborted: number;
  bytes: number;
}

const {
  port,
  key,
  clients,
  paths,
  abortsWithinMs,
  isOnce = false,
  follows = false,
}: RequestOptions = workerData;
const counts: RequestCounts = { statuses: {}, failed: 0, aborted: 0, bytes: 0 };
let sent = 0;
let isStopped = false;

async function run(): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  let path = '';
  do {
    path = (follows && path) || paths[sent++ % paths.length]!;
    const { status, body } = await send(agent, path);
    const next = /"next":"([^"]+)"/.exec(body)?.[1];
    if (next !== undefined) path = path.replace(/after=.*/, `after=${next}`);
    if (status === 'aborted') counts.aborted++;
    else if (status === 0) counts.failed++;
    else counts.statuses[status] = (counts.statuses[status] ?? 0) + 1;
    // neither a rejected request is repeated nor a rejected connection opened at once
    if (status !== 'aborted' && status !== 200) await sleep(status === 0 ? 200 : 5);
  } while (!isStopped && !isOnce);
  agent.destroy();
}

/** Resolves with the status of the whole response, 0 for none, and with its body if clients follow it. */
function send(agent: Agent, path: string): Promise<{ status: number | 'aborted'; body: string }> {
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    let body = '';
    const end = (status: number | 'aborted') => {
      clearTimeout(timer);
      resolve({ status, body });
    };
    const outgoing = request({ port, host: '127.0.0.1', path, agent, headers: { 'x-api-key': key } });
    outgoing.on('response', (response) => {
      response.on('data', (chunk: Buffer) => {
        counts.bytes += chunk.length;
        if (follows) body += chunk.toString();
      });
      response.on('error', () => end(0));
      response.on('end', () => end(response.statusCode!));
    });
    outgoing.on('error', () => end(0));
    if (abortsWithinMs !== undefined)
      timer = setTimeout(() => {
        end('aborted');
        outgoing.destroy();
      }, Math.random() * abortsWithinMs);
    outgoing.end();
  });
}

let running: Promise<unknown>;
serveLoad(
  () => {
    running = Promise.all(Array.from({ length: clients }, run));
  },
  async () => {
    isStopped = true;
    await running;
    return counts;
  },
);
