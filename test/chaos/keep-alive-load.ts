import { setTimeout as sleep } from 'node:timers/promises';
import { pace } from '../../bench/load/pace.ts';
import { Client } from '../support/client.ts';

export interface CheckedRequest {
  path: string;
  /** body of a POST; without it the request is a GET */
  body?: string;
  /** exact body of the response */
  answer: string;
}

const RESPONSE_TIMEOUT_MS = 10_000;

/**
 * Clients like those of integrators: connections are kept alive, and closed when a response requires it. Requests are due at
 * a fixed rate, independent of earlier responses. Every response is compared byte by byte.
 */
export class KeepAliveLoad {
  readonly #client: Client;
  readonly #running: Promise<void>;
  readonly #pending = new Set<Promise<void>>();
  #over = false;
  answered = 0;
  /** requests with a rejected connection */
  rejected = 0;
  /** descriptions of all other failures */
  readonly faults: string[] = [];

  constructor(
    { port, key }: { port: number; key: string },
    perSecond: number,
    requests: readonly CheckedRequest[],
  ) {
    this.#client = new Client(port, { full: key, narrow: '' });
    let sent = 0;
    this.#running = pace(
      perSecond,
      () => this.#over,
      () => {
        const pending = this.#send(requests[sent++ % requests.length]!).finally(() =>
          this.#pending.delete(pending),
        );
        this.#pending.add(pending);
      },
    );
  }

  /** Stops sending and resolves when all responses have arrived. */
  async stop(): Promise<void> {
    this.#over = true;
    await this.#running;
    await Promise.all(this.#pending);
    this.#client.close();
  }

  async #send({ path, body, answer }: CheckedRequest): Promise<void> {
    const method = body ? 'POST' : 'GET';
    try {
      const requesting = this.#client.request(path, { method }, body ? Buffer.from(body) : undefined);
      const response = await Promise.race([
        requesting,
        sleep(RESPONSE_TIMEOUT_MS, undefined, { ref: false }),
      ]);
      if (!response) this.faults.push(`${method} ${path}: no response within ${RESPONSE_TIMEOUT_MS} ms`);
      else if (response.status !== 200)
        this.faults.push(`${method} ${path}: ${response.status} ${response.text.slice(0, 100)}`);
      else if (response.text !== answer)
        this.faults.push(
          `${method} ${path}: another response, ${response.text.length} characters instead of ${answer.length}`,
        );
      else this.answered++;
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      if (code === 'ECONNREFUSED') this.rejected++;
      else this.faults.push(`${method} ${path}: ${message}`);
    }
  }
}
