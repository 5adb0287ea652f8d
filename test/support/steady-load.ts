import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { closeAtEnd } from './cleanup.ts';
import { Client } from './client.ts';
import type { Service } from './service.ts';

/** Request whose response is known. */
export interface KnownRequest {
  path: string;
  /** body of a POST; without it the request is a GET */
  body?: string;
  /** exact body of the response */
  answer: string;
  /** default 200 */
  status?: number;
}

const REJECTION = '{"error":"Service unavailable"}';
/** Pause of a client between a response and its next request, which leaves the processors to the service. */
const PAUSE_MS = 10;

/**
 * Clients like those of integrators: each sends one request after the other, on connections that are kept alive, and closed
 * when a response requires it. Every response is compared byte by byte. It is stopped at the end of the file.
 */
export class SteadyLoad {
  readonly clients: number;
  /** responses as expected */
  answered = 0;
  /** responses with 503 in the common form and Retry-After */
  rejected = 0;
  /** requests whose last response was such a rejection */
  readonly lastRejected = new Set<KnownRequest>();
  /** requests whose connection was refused, or reset before it was used: it waited to be accepted when the port closed */
  refused = 0;
  /** descriptions of everything else */
  readonly faults: string[] = [];
  readonly #client: Client;
  readonly #clients: Promise<unknown>;
  #isOver = false;

  constructor(
    { port, fullKey }: Pick<Service, 'port' | 'fullKey'>,
    requests: readonly KnownRequest[],
    clients = 8,
    keepAlive = true,
  ) {
    this.clients = clients;
    this.#client = new Client(port, { full: fullKey }, keepAlive);
    let sent = 0;
    const run = async () => {
      for (; !this.#isOver; await sleep(PAUSE_MS)) await this.#send(requests[sent++ % requests.length]!);
    };
    this.#clients = Promise.all(Array.from({ length: clients }, run));
    closeAtEnd('load', async () => void (await this.stop()));
  }

  /** Resolves when so many more requests have been answered. */
  async answers(count: number): Promise<void> {
    const due = this.answered + count;
    await expect
      .poll(() => (this.answered >= due ? undefined : { ...this, faults: this.faults.slice(0, 3) }))
      .toBeUndefined();
  }

  /** Stops when all responses have arrived; returns it for its counts. */
  async stop(): Promise<this> {
    this.#isOver = true;
    await this.#clients;
    this.#client.close();
    return this;
  }

  async #send(request: KnownRequest): Promise<void> {
    const { path, body, answer, status = 200 } = request;
    const method = body === undefined ? 'GET' : 'POST';
    try {
      const response = await this.#client.request(path, { method }, body ? Buffer.from(body) : undefined);
      const isRejection = response.text === REJECTION && /^\d+$/.test(response.headers['retry-after'] ?? '');
      if (response.status === status && response.text === answer) {
        this.answered++;
        this.lastRejected.delete(request);
      } else if (response.status === 503 && isRejection) {
        this.rejected++;
        this.lastRejected.add(request);
      } else
        this.faults.push(
          `${method} ${path}: ${response.status}, ${response.text.length} characters instead of ${answer.length}: ${response.text.slice(0, 100)}`,
        );
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'ECONNREFUSED' || message === 'read ECONNRESET') this.refused++;
      else this.faults.push(`${method} ${path}: ${message}`);
    }
  }
}

/** What a load has when every request was answered as expected. */
export const ALL_ANSWERED = { faults: [], rejected: 0, refused: 0 };

/**
 * Stops a load during or after a fault. Every response was as expected or a rejection in the common form, those were the
 * fewer, and each rejected request is answered when it is repeated. The simulation judges how few they are.
 */
export async function expectAnswered(load: SteadyLoad): Promise<void> {
  await load.answers(load.clients);
  await expect.poll(() => [...load.lastRejected]).toEqual([]);
  const { answered, rejected } = await load.stop();
  expect(load).toMatchObject({ faults: [], refused: 0 });
  expect(rejected).toBeLessThan(answered);
}
