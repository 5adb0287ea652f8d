import { expect } from 'vitest';
import { closeAtEnd } from './cleanup.ts';
import { Client, type HttpResponse } from './client.ts';
import type { Service } from './service.ts';

/** Connections a worker on average: with 8, one of two workers is missed with a probability of 2^-15. */
const PER_WORKER = 8;
/** Connections kept to each worker once all are reached. */
const KEPT_PER_WORKER = 2;
const ATTEMPTS = 20;
/** Idle time after which new connections are opened: the server closes idle ones after 8 s, perhaps beside a request. */
const IDLE_MS = 4_000;

/** Opens connections to an instance until each worker has one; the kernel distributes them. */
async function reachAll(connect: () => Client, workers: number): Promise<Client[]> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const clients = Array.from({ length: PER_WORKER * workers }, connect);
    const responses = await Promise.all(clients.map((client) => client.request('/nowhere', { key: 'none' })));
    const byWorker = Map.groupBy(clients, (_, i) => workerOf(responses[i]!));
    const isDone = byWorker.size >= workers;
    const kept = new Set(
      isDone ? [...byWorker.values()].flatMap((same) => same.slice(0, KEPT_PER_WORKER)) : [],
    );
    for (const client of clients) if (!kept.has(client)) client.close();
    if (isDone) return [...kept];
  }
  throw new Error(`${ATTEMPTS} times, not all of ${workers} workers responded`);
}

/** Returns the process that responded, by the start of its request id. */
export function workerOf({ headers }: Pick<HttpResponse, 'headers'>): string {
  return String(headers['x-request-id']).slice(0, 12);
}

/** Sends requests to every worker of services over separate connections. */
export class AllWorkers {
  readonly #instances: { connect: () => Client; workers: number }[];
  #open: Client[] = [];
  #usedAtMs = -Infinity;
  #inProgress = 0;
  /** set while connections are opened, which concurrent requests share */
  #reaching: Promise<unknown> | undefined;

  private constructor(instances: { connect: () => Client; workers: number }[]) {
    this.#instances = instances;
  }

  static async of(...services: Service[]): Promise<AllWorkers> {
    const keys = { full: services[0]!.fullKey, narrow: services[0]!.narrowKey };
    const instances = services.map(async (service) => {
      const connect = () => new Client(service.port, keys);
      return { connect, workers: (await service.workerPids()).length };
    });
    const all = new AllWorkers(await Promise.all(instances));
    closeAtEnd('connections to every worker', async () => all.close());
    await all.#clients();
    return all;
  }

  close(): void {
    for (const client of this.#open.splice(0)) client.close();
  }

  /** Returns the response of each connection. */
  async get(path: string, key?: string): Promise<HttpResponse[]> {
    return this.#send((client) => client.request(path, key === undefined ? {} : { key }));
  }

  async post(path: string, body: object): Promise<HttpResponse[]> {
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
    return this.#send((client) => client.request(path, { method: 'POST' }, bytes));
  }

  /** Polls until every connection responds as expected. */
  async until(path: string, isSo: (response: HttpResponse) => boolean, key?: string): Promise<void> {
    const other = async () => {
      const found = (await this.get(path, key)).find((response) => !isSo(response));
      return found && `${found.status} ${found.text.slice(0, 300)}`;
    };
    await expect.poll(other, { message: path }).toBeUndefined();
  }

  /** Sends a request over each connection. */
  async #send(request: (client: Client) => Promise<HttpResponse>): Promise<HttpResponse[]> {
    const clients = await this.#clients();
    this.#inProgress++;
    try {
      return await Promise.all(clients.map(request));
    } finally {
      this.#inProgress--;
      this.#usedAtMs = performance.now();
    }
  }

  async #clients(): Promise<Client[]> {
    if (this.#inProgress === 0 && performance.now() - this.#usedAtMs > IDLE_MS)
      this.#reaching ??= this.#reachAll().finally(() => {
        this.#reaching = undefined;
      });
    await this.#reaching;
    return this.#open;
  }

  async #reachAll(): Promise<void> {
    this.close();
    const reached = this.#instances.map(({ connect, workers }) => reachAll(connect, workers));
    this.#open = (await Promise.all(reached)).flat();
  }
}

/** Matches a response with a hotel of this name. */
export const named = (name: string) => (response: HttpResponse) =>
  response.status === 200 && response.json().name === name;
/** Matches a response with this status. */
export const status = (expected: number) => (response: HttpResponse) => response.status === expected;
