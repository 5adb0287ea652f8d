import { Socket } from 'node:net';
import { monotonicMs, pause, random } from '../lib/clock.ts';

/** What postgres.js passes to its option `socket`. */
interface Target {
  host: string[];
  /** one for each host */
  port: number[];
  /** of a Unix socket */
  path: string | false;
}

/** Number of the host with which a new pool begins, by hosts: one that did not answer is left by all of them. */
const firstHosts = new Map<string, number>();

/**
 * Opens the connections of a pool, as its option `socket`. A peer that accepts a connection and ends it without an answer,
 * like a proxy without a server behind it, fails the query that needed it: postgres.js 3.4 would try again without a pause
 * and never fail the query. It also does so for several hosts, or after an answer. Therefore a pool opens at most as many
 * connections in 200 to 400 ms as it may hold, times the number of its hosts.
 */
export class Connector {
  readonly #connections: number;
  /** times of the last connections, some of them in the future */
  readonly #openedAtMs: number[] = [];
  /** number of the host that is used; the next one after the end of a connection to it */
  #host: number | undefined;
  readonly #closing = new AbortController();

  /** `connections`: maximum of the pool, for each host. */
  constructor(connections: number) {
    this.#connections = connections;
  }

  /** Returns a socket that connects. Throws if the pool has ended. */
  async open({ host, port, path }: Target): Promise<Socket> {
    await this.#turn(this.#connections * host.length);
    const name = JSON.stringify([host, port]);
    this.#host ??= firstHosts.get(name) ?? 0;
    const at = this.#host;
    const next = (at + 1) % host.length;
    const socket = new WatchedSocket(() => {
      if (this.#host === at) this.#host = next;
      if (socket.bytesRead === 0 && (firstHosts.get(name) ?? 0) === at) firstHosts.set(name, next);
    });
    if (path) socket.connect(path);
    else socket.connect(port[at]!, host[at]!);
    // postgres.js checks the certificate against it
    Object.assign(socket, { host: host[at], port: port[at] });
    return socket.once('end', () => {
      const error = new Error('the server, or a proxy before it, ended the connection without an answer');
      if (socket.bytesRead === 0) socket.destroy(Object.assign(error, { code: 'CONNECTION_UNANSWERED' }));
    });
  }

  /** Opens no further connection: the pool has ended. */
  close(): void {
    this.#closing.abort();
  }

  async #turn(max: number): Promise<void> {
    const { signal } = this.#closing;
    const nowMs = monotonicMs();
    const before = this.#openedAtMs.length < max ? -Infinity : this.#openedAtMs.shift()!;
    const dueAtMs = Math.max(nowMs, before + retryAfterMs());
    this.#openedAtMs.push(dueAtMs);
    if (dueAtMs > nowMs) await pause(dueAtMs - nowMs, signal);
    signal.throwIfAborted();
  }
}

/** Calls back when it ends. postgres.js removes every listener of a socket before a handshake of TLS. */
class WatchedSocket extends Socket {
  readonly #onEnd: () => void;

  constructor(onEnd: () => void) {
    super();
    this.#onEnd = onEnd;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#onEnd();
    super._destroy(error, done);
  }
}

/** Returns a pause before a lost server is tried again. Instances spread their tries. */
export function retryAfterMs(): number {
  return 200 + random() * 200;
}
