import { retryAfterMs } from '../../src/postgres/connect.ts';
import { Connection } from './network.ts';
import type { Answer, PgServer } from './postgres.ts';
import { present } from './present.ts';
import { execute } from './statements.ts';
import type { Process } from './world.ts';

const CONNECT_TIMEOUT_MS = 2_000;

interface Asked {
  text: string;
  parameters: readonly unknown[];
  resolve: (rows: unknown) => void;
  reject: (error: Error) => void;
}

/** Returns a query of postgres.js: it begins when it is awaited. */
function queryOf(pool: Pool, text: string, parameters: readonly unknown[] = []): object {
  let result: Promise<unknown> | undefined;
  const query = {
    simple: () => query,
    // biome-ignore lint/suspicious/noThenProperty: as in postgres.js
    then: (done: (rows: unknown) => unknown, failed: (error: unknown) => unknown) => {
      result ??= pool.ask(text, parameters);
      return result.then(done, failed);
    },
  };
  return query;
}

/** One connection of a pool, which carries one query at a time. */
class PoolConnection {
  readonly #pool: Pool;
  #connection: Connection | undefined;
  asked: Asked | undefined;
  state: 'closed' | 'connecting' | 'open' = 'closed';
  #failedAtMs = -Infinity;
  #retryMs = 0;
  #giveUp: (() => void) | undefined;

  constructor(pool: Pool) {
    this.#pool = pool;
  }

  get isIdle(): boolean {
    return this.asked === undefined;
  }

  run(asked: Asked): void {
    this.asked = asked;
    if (this.state === 'open') {
      this.#send();
      return;
    }
    const { process } = this.#pool;
    const waitMs = this.#failedAtMs + this.#retryMs - process.monotonicMs();
    if (waitMs > 0) process.setTimer(() => this.#connect(), waitMs);
    else this.#connect();
  }

  #connect(): void {
    const { process, name } = this.#pool;
    const { network, postgres } = present();
    const server = postgres.resolve(name, process.host.name);
    this.state = 'connecting';
    if (!server || this.#pool.isEnded) {
      this.#failed('CONNECT_FAILED');
      return;
    }
    this.#giveUp = Connection.dial(network, process, server, CONNECT_TIMEOUT_MS, (connection, code) => {
      if (!connection) {
        this.#failed(code);
        return;
      }
      this.#connection = connection;
      this.state = 'open';
      this.#retryMs = 0;
      connection.onLost = () => this.#lost('CONNECTION_CLOSED');
      if (this.asked) this.#send();
    });
  }

  #send(): void {
    const connection = this.#connection!;
    const asked = this.asked!;
    const { text, parameters } = asked;
    const server = connection.server as PgServer;
    const answered = (answer: Answer) => {
      if (this.asked !== asked || this.#connection !== connection) return;
      this.#end(() => {
        if ('fault' in answer) asked.reject(Object.assign(new Error(answer.fault.message), answer.fault));
        else asked.resolve(answer.rows);
      });
    };
    connection.ask(() => server.execute(connection, text, (at) => execute(at, text, parameters), answered));
  }

  #end(settle: () => void): void {
    this.asked = undefined;
    settle();
    this.#pool.next();
  }

  #lost(code: string, more: object = {}): void {
    this.state = 'closed';
    this.#connection = undefined;
    const { asked } = this;
    if (asked)
      this.#end(() => asked.reject(Object.assign(new Error(`connection: ${code}`), { code, ...more })));
  }

  #failed(code: string): void {
    this.#failedAtMs = this.#pool.process.monotonicMs();
    this.#retryMs = retryAfterMs();
    // errors of sockets have a system call, those of the server a severity
    const isOfSocket = code === 'ECONNREFUSED' || code === 'CONNECT_FAILED';
    this.#lost(code, isOfSocket ? { syscall: 'connect' } : code === '57P03' ? { severity: 'FATAL' } : {});
  }

  destroy(): void {
    this.#giveUp?.();
    const connection = this.#connection;
    this.#lost('CONNECTION_DESTROYED');
    connection?.close();
  }
}

/** A pool of postgres.js. */
class Pool {
  readonly process: Process;
  readonly name: string;
  readonly #connections: PoolConnection[];
  readonly #queue: Asked[] = [];
  isEnded = false;
  #drained: (() => void) | undefined;

  constructor(process: Process, name: string, connections: number) {
    this.process = process;
    this.name = name;
    this.#connections = Array.from({ length: connections }, () => new PoolConnection(this));
  }

  ask(text: string, parameters: readonly unknown[]): Promise<unknown> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    if (this.isEnded)
      return Promise.reject(Object.assign(new Error('connection ended'), { code: 'CONNECTION_ENDED' }));
    this.#queue.push({ text, parameters, resolve, reject });
    this.next();
    return promise;
  }

  next(): void {
    while (this.#queue.length > 0) {
      const idle = this.#connections.filter((connection) => connection.isIdle);
      const connection = idle.find(({ state }) => state === 'open') ?? idle[0];
      if (!connection) return;
      connection.run(this.#queue.shift()!);
    }
    if (this.#connections.every((connection) => connection.isIdle)) this.#drained?.();
  }

  async end({ timeout = 5 }: { timeout?: number } = {}): Promise<void> {
    if (this.isEnded) return;
    this.isEnded = true;
    const isBusy = this.#queue.length > 0 || this.#connections.some((connection) => !connection.isIdle);
    if (isBusy && timeout > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#drained = resolve;
      const timer = this.process.setTimer(resolve, 1_000 * timeout);
      await promise;
      this.process.clearTimer(timer);
    }
    for (const { reject } of this.#queue.splice(0))
      reject(Object.assign(new Error('connection destroyed'), { code: 'CONNECTION_DESTROYED' }));
    for (const connection of this.#connections) connection.destroy();
  }
}

/** Stands for `openDatabase` of src/postgres/connect.ts: a pool of the process that runs at present. */
export function openDatabase(address: string, connections: number): unknown {
  const pool = new Pool(present().world.current!, new URL(address).hostname, connections);
  return Object.assign((strings: readonly string[]) => queryOf(pool, strings.join('?')), {
    unsafe: (text: string, parameters?: readonly unknown[]) => queryOf(pool, text, parameters),
    end: (how?: { timeout?: number }) => pool.end(how),
  });
}
