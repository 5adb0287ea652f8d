import { connect, type Socket } from 'node:net';
import { setTimeout as wait } from 'node:timers/promises';

/** What postgres.js passes to its option `socket`. */
interface Target {
  host: string[];
  /** one for each host */
  port: number[];
  /** of a Unix socket */
  path: string | false;
}

/**
 * Opens the connections of a pool, as its option `socket`. A peer that accepts a connection and ends it, like a proxy
 * without a server behind it, fails the query that needed it. postgres.js 3.4 would try again without a pause and never
 * fail the query. It does so for several hosts, and if the connection ends in the TLS handshake, in any case. Therefore a pool
 * opens at most as many connections to each host in 200 to 400 ms as it may hold.
 */
export class Connector {
  readonly #connections: number;
  /** times of the last connections, some of them in the future */
  readonly #openedAtMs: number[] = [];
  #nextHost = 0;
  #isClosed = false;

  /** `connections`: maximum of the pool, for each host. */
  constructor(connections: number) {
    this.#connections = connections;
  }

  /** Returns a socket that connects to the next host. Throws if the pool has ended meanwhile. */
  async open({ host, port, path }: Target): Promise<Socket> {
    await this.#turn(this.#connections * host.length);
    if (this.#isClosed) throw new Error('the pool has ended');
    const at = this.#nextHost++ % host.length;
    const socket = path ? connect(path) : connect(port[at]!, host[at]);
    // postgres.js checks the certificate against it
    Object.assign(socket, { host: host[at], port: port[at] });
    return socket.once('end', () => {
      if (socket.bytesRead === 0) socket.destroy(withoutAnswer());
    });
  }

  /** Opens no further connection: the pool has ended. */
  close(): void {
    this.#isClosed = true;
  }

  async #turn(max: number): Promise<void> {
    const nowMs = performance.now();
    const before = this.#openedAtMs.length < max ? -Infinity : this.#openedAtMs.shift()!;
    const dueAtMs = Math.max(nowMs, before + retryAfterMs());
    this.#openedAtMs.push(dueAtMs);
    if (dueAtMs > nowMs) await wait(dueAtMs - nowMs);
  }
}

function withoutAnswer(): Error {
  const error = new Error('the server, or a proxy before it, ended the connection without an answer');
  return Object.assign(error, { code: 'CONNECTION_ENDED' });
}

/** Returns a pause before a lost server is tried again. Instances spread their tries. */
export function retryAfterMs(): number {
  return 200 + Math.random() * 200;
}
