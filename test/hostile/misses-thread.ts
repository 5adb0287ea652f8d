/** Thread of clients of one key that request batches of new unknown ids. */
import { setTimeout as sleep } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { Client } from '../support/client.ts';
import { serveLoad } from './load-thread.ts';

export interface MissOptions {
  port: number;
  key: string;
  /** concurrent batches */
  clients: number;
}

const IDS = 1_000;

const { port, key, clients }: MissOptions = workerData;
const client = new Client(port, { full: key, narrow: '' });
/** responses by status */
const answers: Record<string, number> = {};
const prefix = key.slice(-4);
let made = 0;
let isStopped = false;

async function flood(): Promise<void> {
  while (!isStopped) {
    const ids = Array.from({ length: IDS }, () => `no-${prefix}-${made++}`);
    const body = Buffer.from(JSON.stringify({ channel_ids: ids }));
    const { status } = await client.request('/hotels/channel/batch', { method: 'POST' }, body);
    answers[status] = (answers[status] ?? 0) + 1;
    // a rejected batch is not repeated at once
    if (status !== 200) await sleep(5);
  }
}

let flooding: Promise<unknown>;
serveLoad(
  () => {
    flooding = Promise.all(Array.from({ length: clients }, flood));
  },
  async () => {
    isStopped = true;
    await flooding;
    client.close();
    return answers;
  },
);
