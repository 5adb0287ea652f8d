/** Thread of a bystander: sends requests from the message `start` until `stop`, and then reports. */
import { workerData } from 'node:worker_threads';
import { percentile } from '../../bench/figures.ts';
import { pace } from '../../bench/load/pace.ts';
import { Client } from '../support/client.ts';
import { serveLoad } from './load-thread.ts';

const PER_SECOND = 100;

/** Settings of the thread. */
export interface BystanderOptions {
  port: number;
  fullKey: string;
  ids: string[];
}

/** Observations of a bystander. */
export interface BystanderReport {
  requests: number;
  /** unexpected responses */
  wrong: string[];
  p90Ms: number;
  p99Ms: number;
  maxMs: number;
}

const { port, fullKey, ids }: BystanderOptions = workerData;
const client = new Client(port, { full: fullKey, narrow: '' });
let timesMs: number[] = [];
let wrong: string[] = [];
let isOver = false;
let running: Promise<void>;
const pending = new Set<Promise<void>>();

function start(): void {
  timesMs = [];
  wrong = [];
  isOver = false;
  let sent = 0;
  running = pace(
    PER_SECOND,
    () => isOver,
    (dueMs) => {
      const requesting = send(ids[sent++ % ids.length]!, dueMs);
      pending.add(requesting);
      requesting.finally(() => pending.delete(requesting));
    },
  );
}

async function stop(): Promise<BystanderReport> {
  isOver = true;
  await running;
  await Promise.all(pending);
  return {
    requests: timesMs.length + wrong.length,
    wrong,
    p90Ms: percentile(timesMs, 0.9),
    p99Ms: percentile(timesMs, 0.99),
    maxMs: percentile(timesMs, 1),
  };
}

async function send(id: string, dueMs: number): Promise<void> {
  try {
    const { status, text } = await client.request(`/hotels/${id}`, {});
    if (status === 200 && text.startsWith(`{"id":"${id}",`)) timesMs.push(performance.now() - dueMs);
    else wrong.push(`${status} ${text.slice(0, 100)}`);
  } catch (error) {
    wrong.push((error as Error).message);
  }
}

serveLoad(start, stop);
