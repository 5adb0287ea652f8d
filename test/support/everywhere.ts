import { type Answer, Client } from './client.ts';
import { closeAtEnd } from './left-behind.ts';
import type { Service } from './service.ts';

/** Connections to each worker, on average: with 8 one of two workers is missed once in 2^15. */
const PER_WORKER = 8;

/** Asks every worker of services, each over connections of its own. */
export class Everywhere {
  readonly #clients: Client[];

  private constructor(clients: Client[]) {
    this.#clients = clients;
  }

  static async of(...services: Service[]): Promise<Everywhere> {
    const clients: Client[] = [];
    for (const { port, fullKey, narrowKey, workerPids } of services.map((service) => ({
      port: service.port,
      fullKey: services[0]!.fullKey,
      narrowKey: services[0]!.narrowKey,
      workerPids: service.workerPids(),
    }))) {
      const count = PER_WORKER * (await workerPids).length;
      for (let i = 0; i < count; i++) clients.push(new Client(port, { full: fullKey, narrow: narrowKey }));
    }
    closeAtEnd('connections to every worker', async () => {
      for (const client of clients) client.close();
    });
    return new Everywhere(clients);
  }

  /** The answer of each connection. */
  get(path: string, key?: string): Promise<Answer[]> {
    return Promise.all(this.#clients.map((client) => client.ask(path, key === undefined ? {} : { key })));
  }

  post(path: string, body: object): Promise<Answer[]> {
    const bytes = Buffer.from(JSON.stringify(body));
    return Promise.all(this.#clients.map((client) => client.ask(path, { method: 'POST' }, bytes)));
  }

  /** Asks until every connection answers so; how long that took in ms. Throws after `patienceMs`. */
  async until(
    path: string,
    isSo: (answer: Answer) => boolean,
    patienceMs = 1_000,
    key?: string,
  ): Promise<number> {
    const beganMs = performance.now();
    for (;;) {
      const answers = await this.get(path, key);
      const tookMs = performance.now() - beganMs;
      const other = answers.find((answer) => !isSo(answer));
      if (!other) return tookMs;
      if (tookMs > patienceMs) {
        throw new Error(
          `${path} after ${Math.round(tookMs)} ms: ${other.status} ${other.text.slice(0, 300)}`,
        );
      }
    }
  }
}

/** True of an answer that shows a hotel of this name. */
export const named = (name: string) => (answer: Answer) =>
  answer.status === 200 && answer.json().name === name;
/** True of an answer with this status. */
export const status = (expected: number) => (answer: Answer) => answer.status === expected;
