/** The thread of clients that request /metrics on one connection each, the next as soon as one is answered, until they are told to stop. */
import { Agent, get } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';

export interface Scrapes {
  port: number;
  connections: number;
}

const { port, connections }: Scrapes = workerData;
/** `failed`: the admin port accepts fewer connections */
const met = { answered: 0, failed: 0 };
let isStopped = false;

async function scrape(): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  while (!isStopped) {
    const isAnswered = await new Promise<boolean>((resolve) => {
      get({ port, host: '127.0.0.1', path: '/metrics', agent }, (response) => {
        response.resume().on('end', () => resolve(true));
        response.on('error', () => resolve(false));
      }).on('error', () => resolve(false));
    });
    met[isAnswered ? 'answered' : 'failed']++;
    // a connection that was rejected is not opened again in the same instant
    if (!isAnswered) await sleep(200);
  }
  agent.destroy();
}

const scraping = Promise.all(Array.from({ length: connections }, scrape));
parentPort!.once('message', async () => {
  isStopped = true;
  await scraping;
  parentPort!.postMessage(met);
});
parentPort!.postMessage('started');
