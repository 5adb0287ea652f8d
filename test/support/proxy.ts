import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { closeAtEnd } from './left-behind.ts';

/** One direction of a connection: what came in and may not go on yet. */
interface Way {
  to: Socket;
  /** what its connection began with, as far as it came at once */
  began: () => string;
  waiting: { bytes: Buffer; dueAtMs: number }[];
  ended: boolean;
  /** the far side is gone and nobody is told: nothing of it passes any more, whatever heals */
  stranded: boolean;
}

const KEEPALIVE_MS = 25_000;

/**
 * A path over TCP that can be broken as networks break: slow, black, reset, refused. While it is black bytes are
 * held, and delivered when it heals, as TCP would by sending them again.
 */
export class FaultProxy {
  readonly #server: Server;
  #target: { host: string; port: number };
  readonly #sockets = new Set<Socket>();
  readonly #serverEnds = new Set<Socket>();
  readonly #ways = new Set<Way>();
  #delayMs = 0;
  #black = false;
  #ofThose = '';
  #refusing = false;
  port = 0;

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** A proxy before the server of this address; it is closed at the file's end. */
  static async before(url: string): Promise<FaultProxy & { url: string }> {
    const { hostname, port } = new URL(url);
    const proxy = new FaultProxy({ host: hostname, port: Number(port) });
    await proxy.#listen();
    closeAtEnd(`proxy on port ${proxy.port}`, () => proxy.close());
    return Object.assign(proxy, {
      url: Object.assign(new URL(url), { hostname: '127.0.0.1', port: String(proxy.port) }).href,
    });
  }

  /** New connections go to another server from now on, as when its address is moved; those that stand are reset. */
  moveTo(port: number): void {
    this.#target = { ...this.#target, port };
    this.reset();
  }

  /** Passes everything on at once again, also what was held. */
  async heal(): Promise<void> {
    this.#black = false;
    this.#delayMs = 0;
    this.#ofThose = '';
    if (this.#refusing) await this.#listen();
    this.#refusing = false;
    for (const way of this.#ways) this.#deliver(way);
  }

  /**
   * Every byte from now on takes so much longer; where `beganWith`, only on connections that began with a text like
   * this: PostgreSQL is told the name of the application there.
   */
  delay(ms: number, beganWith = ''): void {
    this.#delayMs = ms;
    this.#ofThose = beganWith;
  }

  /** Nothing passes, in either direction, on old connections or new ones; nobody is told. `beganWith` as for `delay`. */
  blackout(beganWith = ''): void {
    this.#black = true;
    this.#ofThose = beganWith;
  }

  /**
   * Leaves every connection half open: as when a router on the way has forgotten it. New ones pass. The server finds
   * out by its keep-alive, after 25 s as the service asks for it, and gives up its ends.
   */
  strand(): void {
    for (const way of this.#ways) way.stranded = true;
    const ends = [...this.#serverEnds];
    setTimeout(() => {
      for (const end of ends) end.destroy();
    }, KEEPALIVE_MS).unref();
  }

  /** Ends every connection with a reset; new ones are welcome. */
  reset(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Resets every connection and refuses new ones. */
  async reject(): Promise<void> {
    this.#refusing = true;
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.reset();
    await closed;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    if (this.#server.listening) await new Promise((resolve) => this.#server.close(resolve));
  }

  async #listen(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = (this.#server.address() as AddressInfo).port;
  }

  #accept(client: Socket): void {
    const server = connect({ ...this.#target, allowHalfOpen: true });
    // as the server's own machine would refuse it
    const rejected = () => client.resetAndDestroy();
    server.once('error', rejected).once('connect', () => server.off('error', rejected));
    client.allowHalfOpen = true;
    this.#serverEnds.add(server);
    server.once('close', () => this.#serverEnds.delete(server));
    for (const socket of [client, server]) {
      socket.setNoDelay(true);
      this.#sockets.add(socket);
      socket.on('error', () => {});
    }
    let began = '';
    client.once('data', (bytes: Buffer) => (began = bytes.toString('latin1')));
    this.#pipe(client, server, () => began);
    this.#pipe(server, client, () => began);
  }

  #pipe(from: Socket, to: Socket, began: () => string): void {
    const way: Way = { to, began, waiting: [], ended: false, stranded: false };
    this.#ways.add(way);
    from.on('data', (bytes) => {
      way.waiting.push({ bytes, dueAtMs: performance.now() + (this.#meant(way) ? this.#delayMs : 0) });
      this.#deliver(way);
    });
    from.on('end', () => {
      way.ended = true;
      this.#deliver(way);
    });
    from.on('close', () => {
      this.#sockets.delete(from);
      way.ended = true;
      this.#deliver(way);
    });
  }

  #meant(way: Way): boolean {
    return way.began().includes(this.#ofThose);
  }

  #deliver(way: Way): void {
    if (way.stranded) {
      way.waiting.length = 0;
      if (way.ended) this.#ways.delete(way);
      return;
    }
    if (this.#black && this.#meant(way)) return;
    const nowMs = performance.now();
    while (way.waiting[0] && way.waiting[0].dueAtMs <= nowMs) {
      const { bytes } = way.waiting.shift()!;
      if (!way.to.destroyed) way.to.write(bytes);
    }
    if (way.waiting[0]) setTimeout(() => this.#deliver(way), way.waiting[0].dueAtMs - nowMs);
    else if (way.ended) {
      this.#ways.delete(way);
      way.to.end();
    }
  }
}
