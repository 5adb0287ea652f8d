/** Thread of clients that request /metrics repeatedly on one connection each. */
import { setTimeout as sleep } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { Client } from '../support/client.ts';
import { serveLoad } from './load-thread.ts';

export interface ScrapeOptions {
  port: number;
  connections: number;
}

const { port, connections }: ScrapeOptions = workerData;
/** `failed`: the admin port accepts fewer connections */
const counts = { answered: 0, failed: 0 };
let isStopped = false;

async function scrape(): Promise<void> {
  const client = new Client(port, { full: '', narrow: '' }, 1);
  while (!isStopped) {
    try {
      await client.ask('/metrics', { key: 'none' });
      counts.answered++;
    } catch {
      counts.failed++;
      // a rejected connection is not opened again at once
      await sleep(200);
    }
  }
  client.close();
}

let scraping: Promise<unknown>;
serveLoad(
  () => {
    scraping = Promise.all(Array.from({ length: connections }, scrape));
  },
  async () => {
    isStopped = true;
    await scraping;
    return counts;
  },
);
