import { expect } from 'vitest';
import { Client, type HttpResponse } from './client.ts';
import type { Service } from './service.ts';

/** Connections a worker on average: with 8, one of two workers is missed with a probability of 2^-15. */
const PER_WORKER = 8;
/** Responses of each worker that are returned. */
const KEPT_PER_WORKER = 2;
const ATTEMPTS = 20;

/** Returns the process that responded, by the start of its request id. */
function workerOf({ headers }: Pick<HttpResponse, 'headers'>): string {
  return String(headers['x-request-id']).slice(0, 12);
}

/** Sends requests to every worker of services, over new connections: the kernel distributes them. */
export class AllWorkers {
  readonly #instances: { connect: () => Client; workers: number }[];

  private constructor(instances: { connect: () => Client; workers: number }[]) {
    this.#instances = instances;
  }

  static async of(...services: Service[]): Promise<AllWorkers> {
    const keys = { full: services[0]!.fullKey, narrow: services[0]!.narrowKey };
    const instances = services.map(async (service) => ({
      connect: () => new Client(service.port, keys),
      workers: (await service.workerPids()).length,
    }));
    const all = new AllWorkers(await Promise.all(instances));
    await all.get('/nowhere', 'none');
    return all;
  }

  /** Returns responses of every worker. */
  get(path: string, key?: string): Promise<HttpResponse[]> {
    return this.#send((client) => client.request(path, key === undefined ? {} : { key }));
  }

  post(path: string, body: object): Promise<HttpResponse[]> {
    const bytes = Buffer.from(JSON.stringify(body));
    return this.#send((client) => client.request(path, { method: 'POST' }, bytes));
  }

  /** Polls until every worker responds as expected. */
  async until(path: string, isSo: (response: HttpResponse) => boolean, key?: string): Promise<void> {
    const other = async () => {
      const found = (await this.get(path, key)).find((response) => !isSo(response));
      return found && `${found.status} ${found.text.slice(0, 300)}`;
    };
    await expect.poll(other, { message: path }).toBeUndefined();
  }

  async #send(request: (client: Client) => Promise<HttpResponse>): Promise<HttpResponse[]> {
    const responses = this.#instances.map(async ({ connect, workers }) => {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const clients = Array.from({ length: workers === 1 ? 1 : PER_WORKER * workers }, connect);
        const all = await Promise.all(clients.map(request)).finally(() => {
          for (const client of clients) client.close();
        });
        const byWorker = Map.groupBy(all, workerOf);
        if (byWorker.size >= workers)
          return [...byWorker.values()].flatMap((same) => same.slice(0, KEPT_PER_WORKER));
      }
      throw new Error(`${ATTEMPTS} times, not all of ${workers} workers responded`);
    });
    return (await Promise.all(responses)).flat();
  }
}

/** Matches a response with a hotel of this name. */
export const named = (name: string) => (response: HttpResponse) =>
  response.status === 200 && response.json().name === name;
/** Matches a response with this status. */
export const status = (expected: number) => (response: HttpResponse) => response.status === expected;
