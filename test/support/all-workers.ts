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

/** Connections to one instance that reach each of its workers. */
class Instance {
  readonly #connect: () => Client;
  readonly #port: number;
  readonly #workers: number;
  clients: Client[] = [];

  constructor(service: Service, keys: { full: string; narrow: string }, workers: number) {
    this.#port = service.port;
    this.#connect = () => new Client(service.port, keys);
    this.#workers = workers;
  }

  /** Opens connections until each worker has one; the kernel distributes them. */
  async reachAll(): Promise<void> {
    let reached = 0;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      this.close();
      this.clients = Array.from({ length: PER_WORKER * this.#workers }, this.#connect);
      const responses = await Promise.all(
        this.clients.map((client) => client.request('/nowhere', { key: 'none' })),
      );
      const byWorker = Map.groupBy(this.clients, (_, i) => workerOf(responses[i]!));
      reached = byWorker.size;
      if (reached >= this.#workers) return this.#keep([...byWorker.values()]);
    }
    throw new Error(`on port ${this.#port} only ${reached} of ${this.#workers} workers respond`);
  }

  close(): void {
    for (const client of this.clients.splice(0)) client.close();
  }

  #keep(byWorker: Client[][]): void {
    const kept = new Set(byWorker.flatMap((clients) => clients.slice(0, KEPT_PER_WORKER)));
    for (const client of this.clients) if (!kept.has(client)) client.close();
    this.clients = [...kept];
  }
}

/** Returns the process that responded, by the start of its request id. */
export function workerOf({ headers }: Pick<HttpResponse, 'headers'>): string {
  return String(headers['x-request-id']).slice(0, 12);
}

/** Sends requests to every worker of services over separate connections. */
export class AllWorkers {
  readonly #instances: Instance[];
  #usedAtMs = -Infinity;
  #inProgress = 0;
  /** set while connections are opened, which concurrent requests share */
  #reaching: Promise<unknown> | undefined;

  private constructor(instances: Instance[]) {
    this.#instances = instances;
  }

  static async of(...services: Service[]): Promise<AllWorkers> {
    const keys = { full: services[0]!.fullKey, narrow: services[0]!.narrowKey };
    const instances = services.map(
      async (service) => new Instance(service, keys, (await service.workerPids()).length),
    );
    const all = new AllWorkers(await Promise.all(instances));
    closeAtEnd('connections to every worker', async () => all.close());
    await all.#clients();
    return all;
  }

  close(): void {
    for (const instance of this.#instances) instance.close();
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
      this.#reaching ??= Promise.all(this.#instances.map((instance) => instance.reachAll())).finally(() => {
        this.#reaching = undefined;
      });
    await this.#reaching;
    return this.#instances.flatMap(({ clients }) => clients);
  }
}

/** Matches a response with a hotel of this name. */
export const named = (name: string) => (response: HttpResponse) =>
  response.status === 200 && response.json().name === name;
/** Matches a response with this status. */
export const status = (expected: number) => (response: HttpResponse) => response.status === expected;
