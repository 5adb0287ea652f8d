import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Question {
  path: string;
  /** body of a POST; without it the request is a GET */
  body?: string;
  /** exact body of the response */
  answer: string;
}

const SLOWEST_MS = 10_000;

/**
 * Clients like those of integrators: connections are kept alive, and closed when a response requires it. Requests are due at
 * a fixed rate, independent of earlier responses. Every response is compared byte by byte.
 */
export class KeepAliveLoad {
  readonly #agent = new Agent({ keepAlive: true, timeout: 5_000 });
  readonly #target: { port: number; key: string };
  readonly #running: Promise<void>;
  readonly #waiting = new Set<Promise<void>>();
  #over = false;
  answered = 0;
  /** requests with a rejected connection */
  rejected = 0;
  /** descriptions of all other failures */
  readonly faults: string[] = [];

  constructor(target: { port: number; key: string }, perSecond: number, questions: readonly Question[]) {
    this.#target = target;
    this.#running = this.#run(perSecond, questions);
  }

  /** Stops sending and resolves when all responses have arrived. */
  async stop(): Promise<void> {
    this.#over = true;
    await this.#running;
    await Promise.all(this.#waiting);
    this.#agent.destroy();
  }

  async #run(perSecond: number, questions: readonly Question[]): Promise<void> {
    const beganMs = performance.now();
    for (let sent = 0; !this.#over; await sleep(1)) {
      for (; sent < ((performance.now() - beganMs) * perSecond) / 1_000; sent++) {
        const asked = this.#ask(questions[sent % questions.length]!).finally(() =>
          this.#waiting.delete(asked),
        );
        this.#waiting.add(asked);
      }
    }
  }

  #ask({ path, body, answer }: Question): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const fail = (what: string) => {
      this.faults.push(`${body ? 'POST' : 'GET'} ${path}: ${what}`);
      resolve();
    };
    const outgoing = request({
      host: '127.0.0.1',
      port: this.#target.port,
      path,
      method: body ? 'POST' : 'GET',
      headers: {
        'x-api-key': this.#target.key,
        ...(body && { 'content-length': Buffer.byteLength(body) }),
      },
      agent: this.#agent,
      timeout: SLOWEST_MS,
    });
    outgoing.on('timeout', () => outgoing.destroy(new Error(`no response within ${SLOWEST_MS} ms`)));
    outgoing.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code !== 'ECONNREFUSED')
        return fail(`${error.message}, connection used before: ${outgoing.reusedSocket}`);
      this.rejected++;
      resolve();
    });
    outgoing.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', (error) => fail(`truncated: ${error.message}`));
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString();
        if (response.statusCode !== 200) return fail(`${response.statusCode} ${text.slice(0, 100)}`);
        if (text !== answer)
          return fail(`another response, ${text.length} characters instead of ${answer.length}`);
        this.answered++;
        resolve();
      });
    });
    outgoing.end(body);
    return promise;
  }
}
