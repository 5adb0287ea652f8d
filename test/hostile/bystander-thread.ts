/** Thread of a bystander: sends requests from the message `start` until `stop`, and then reports. */
import { parentPort, workerData } from 'node:worker_threads';
import { Client } from '../support/client.ts';

const PER_SECOND = 100;

/** Settings of the thread. */
export interface Around {
  port: number;
  fullKey: string;
  ids: string[];
}

/** Observations of a bystander. */
export interface Experience {
  requests: number;
  /** unexpected responses */
  wrong: string[];
  p90Ms: number;
  p99Ms: number;
  maxMs: number;
}

const { port, fullKey, ids }: Around = workerData;
const client = new Client(port, { full: fullKey, narrow: '' });
let timesMs: number[] = [];
let wrong: string[] = [];
let timer: NodeJS.Timeout | undefined;
const under = new Set<Promise<void>>();

function start(): void {
  timesMs = [];
  wrong = [];
  const beganMs = performance.now();
  let sent = 0;
  timer = setInterval(() => {
    for (; sent < ((performance.now() - beganMs) * PER_SECOND) / 1000; sent++) {
      const asking = ask(ids[sent % ids.length]!, beganMs + (sent * 1000) / PER_SECOND);
      under.add(asking);
      asking.finally(() => under.delete(asking));
    }
  }, 2);
}

async function stop(): Promise<Experience> {
  clearInterval(timer);
  await Promise.all(under);
  const sorted = timesMs.sort((a, b) => a - b);
  return {
    requests: sorted.length + wrong.length,
    wrong,
    p90Ms: sorted[Math.floor(sorted.length * 0.9)] ?? Infinity,
    p99Ms: sorted[Math.floor(sorted.length * 0.99)] ?? Infinity,
    maxMs: sorted.at(-1) ?? Infinity,
  };
}

async function ask(id: string, dueMs: number): Promise<void> {
  try {
    const { status, text } = await client.ask(`/hotels/${id}`, {});
    if (status === 200 && text.startsWith(`{"id":"${id}",`)) timesMs.push(performance.now() - dueMs);
    else wrong.push(`${status} ${text.slice(0, 100)}`);
  } catch (error) {
    wrong.push((error as Error).message);
  }
}

parentPort!.on('message', async (message: 'start' | 'stop') => {
  if (message === 'start') start();
  else parentPort!.postMessage(await stop());
});
