import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { freePort } from '../../src/demo/servers/port.ts';
import { closeAtEnd } from './cleanup.ts';

/** One direction of a connection with its delayed bytes. */
interface Direction {
  to: Socket;
  /** true: towards the server */
  isUp: boolean;
  waiting: { bytes: Buffer; dueAtMs: number }[];
  ended: boolean;
  /** the far side has disappeared without notice: no byte passes any more, even after healing */
  isHalfOpen: boolean;
}

const KEEPALIVE_MS = 25_000;

/**
 * TCP proxy with faults of a network: delay, blackout, reset, rejection, no server behind it. During a blackout bytes are
 * buffered, and delivered afterwards, as after TCP retransmissions.
 */
export class FaultProxy {
  readonly #server: Server;
  readonly #target: { host: string; port: number };
  readonly #sockets = new Set<Socket>();
  readonly #directions = new Set<Direction>();
  #delayMs = 0;
  #isBlackout = false;
  #isEnding = false;
  port = 0;
  /** connections accepted so far */
  accepted = 0;
  /** returns true if a request that arrives on a connection that has been used finds it reset */
  resetsRequest = (): boolean => false;
  /** address of the server, by way of this proxy */
  url = '';

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** Starts a proxy for the server of this address; it is closed at the end of the file. */
  static async before(url: string): Promise<FaultProxy> {
    const { hostname, port } = new URL(url);
    const proxy = new FaultProxy({ host: hostname, port: Number(port) });
    // still free when it listens again after a rejection
    proxy.port = await freePort();
    await proxy.#listen();
    closeAtEnd(`proxy on port ${proxy.port}`, () => proxy.close());
    proxy.url = Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(proxy.port) }).href;
    return proxy;
  }

  /** Ends all faults and delivers buffered bytes. */
  async heal(): Promise<void> {
    this.#isBlackout = false;
    this.#isEnding = false;
    this.#delayMs = 0;
    if (!this.#server.listening) await this.#listen();
    for (const direction of this.#directions) {
      for (const each of direction.waiting) each.dueAtMs = 0;
      this.#deliver(direction);
    }
  }

  /** Delays every byte from now on. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** Stops all bytes in both directions, on old and new connections, without notice. */
  blackout(): void {
    this.#isBlackout = true;
  }

  /**
   * Leaves every connection half open, like a router that has lost its state. New ones pass. The server detects it by its
   * keep-alive, after 25 s with the service's settings.
   */
  halfOpen(): void {
    const all = [...this.#directions];
    for (const direction of all) direction.isHalfOpen = true;
    setTimeout(() => {
      for (const { to, isUp } of all) if (isUp) to.destroy();
    }, KEEPALIVE_MS).unref();
  }

  /** Resets every connection; accepts new ones. */
  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Resets every connection and rejects new ones. */
  async reject(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.reset();
    await closed;
  }

  /** Ends every connection, and new ones without an answer, like a load balancer without a healthy server. */
  endEach(): void {
    this.#isEnding = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
  }

  async #listen(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  #accept(client: Socket): void {
    this.accepted++;
    if (this.#isEnding) {
      client
        .on('error', () => {})
        .resume()
        .end();
      return;
    }
    const server = connect({ ...this.#target, allowHalfOpen: true });
    // like a rejection by the server's own machine
    const rejected = () => client.resetAndDestroy();
    server.once('error', rejected).once('connect', () => server.off('error', rejected));
    client.allowHalfOpen = true;
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      this.#sockets.add(socket);
      socket.on('error', () => {});
    }
    let isUsed = false;
    server.once('data', () => {
      isUsed = true;
    });
    const resets = () => isUsed && this.resetsRequest();
    this.#pipe(client, server, true, resets);
    this.#pipe(server, client, false, () => false);
  }

  #pipe(from: Socket, to: Socket, isUp: boolean, resets: () => boolean): void {
    const direction: Direction = { to, isUp, waiting: [], ended: false, isHalfOpen: false };
    this.#directions.add(direction);
    from.on('data', (bytes) => {
      if (resets()) return void from.resetAndDestroy();
      direction.waiting.push({ bytes, dueAtMs: performance.now() + this.#delayMs });
      this.#deliver(direction);
    });
    const end = () => {
      direction.ended = true;
      this.#deliver(direction);
    };
    from.on('end', end).on('close', () => {
      this.#sockets.delete(from);
      end();
    });
  }

  #deliver(direction: Direction): void {
    if (direction.isHalfOpen) {
      direction.waiting.length = 0;
      if (direction.ended) this.#directions.delete(direction);
      return;
    }
    if (this.#isBlackout) return;
    const nowMs = performance.now();
    while (direction.waiting[0] && direction.waiting[0].dueAtMs <= nowMs) {
      const { bytes } = direction.waiting.shift()!;
      if (!direction.to.destroyed) direction.to.write(bytes);
    }
    if (direction.waiting[0])
      setTimeout(() => this.#deliver(direction), direction.waiting[0].dueAtMs - nowMs);
    else if (direction.ended) {
      this.#directions.delete(direction);
      direction.to.end();
    }
  }
}
