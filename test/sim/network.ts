import type { Random } from './random.ts';
import { entryOf, type Host, type Process, type World } from './world.ts';

/** Longest pause before TCP sends again what a broken link has swallowed. */
const RETRANSMIT_MS = 1_200;

/** One direction between two machines. */
export class Link {
  isBlocked = false;
  /** mean delay of a packet */
  delayMs = 0.2;
  readonly #waiting: (() => void)[] = [];

  block(): void {
    this.isBlocked = true;
  }

  open(): void {
    this.isBlocked = false;
    for (const wake of this.#waiting.splice(0)) wake();
  }

  whenOpen(wake: () => void): void {
    this.#waiting.push(wake);
  }
}

/** Links between the machines of a world, each direction on its own. */
export class Network {
  readonly world: World;
  readonly random: Random;
  readonly connections = new Set<Connection>();
  /** called when a half-open connection of a host has swallowed something */
  onSwallowed: (host: string) => void = () => {};
  readonly #links = new Map<string, Link>();

  constructor(world: World) {
    this.world = world;
    this.random = world.randomOf('network');
  }

  link(from: string, to: string): Link {
    return entryOf(this.#links, `${from}>${to}`, () => new Link());
  }

  isOpen(a: string, b: string): boolean {
    return !this.link(a, b).isBlocked && !this.link(b, a).isBlocked;
  }

  /** Shortest time of an exchange. */
  roundTripMs(a: string, b: string): number {
    return 0.5 * (this.link(a, b).delayMs + this.link(b, a).delayMs);
  }
}

/** A program that connections lead to: it runs, stands still, or is gone. */
export class Server {
  readonly name: string;
  isUp = true;
  isFrozen = false;
  /** time that each of its answers takes beyond the usual */
  slowMs = 0;
  /** number of its runs: what began in an earlier one is lost */
  run = 0;
  readonly connections = new Set<Connection>();
  #frozen: (() => void)[] = [];

  constructor(name: string) {
    this.name = name;
  }

  /** Code of the error by which it rejects connections at present; empty: it accepts them. */
  get rejection(): string {
    return this.isUp ? '' : 'ECONNREFUSED';
  }

  /** Does something as soon as it runs, unless it was stopped meanwhile. */
  whenRunning(work: () => void): void {
    if (this.isFrozen) this.#frozen.push(work);
    else work();
  }

  unfreeze(): void {
    this.isFrozen = false;
    for (const work of this.#frozen.splice(0)) work();
  }

  stop(): void {
    this.isUp = false;
    this.isFrozen = false;
    this.run++;
    this.#frozen = [];
    this.endSessions();
  }

  endSessions(): void {
    for (const connection of this.connections) connection.reset();
    this.connections.clear();
  }
}

type Direction = 'up' | 'down';

/** A connection of a process to a server: each direction in order, or nothing at all. */
export class Connection {
  readonly client: Process;
  readonly server: Server;
  readonly network: Network;
  /** calls back in the client when the peer has ended it */
  onLost: (() => void) | undefined;
  isClosed = false;
  /** half-open: something between has forgotten it, and swallows every packet */
  isVoid = false;
  readonly #lastMs = { up: 0, down: 0 };
  readonly #backlog: Record<Direction, (() => void)[]> = { up: [], down: [] };
  readonly #isWaiting = { up: false, down: false };

  constructor(network: Network, client: Process, server: Server) {
    this.network = network;
    this.client = client;
    this.server = server;
    network.connections.add(this);
  }

  /**
   * Connects a process to a server; returns a function that gives up. `opened` is called with the connection, or with the
   * code of the error.
   */
  static dial(
    network: Network,
    client: Process,
    server: Server,
    timeoutMs: number,
    opened: (connection: Connection | undefined, code: string) => void,
  ): () => void {
    const connection = new Connection(network, client, server);
    let isOver = false;
    const end = (code: string) => {
      if (isOver) return;
      isOver = true;
      client.clearTimer(timer);
      if (code !== '') connection.close();
      opened(code === '' ? connection : undefined, code);
    };
    const timer = client.setTimer(() => end('CONNECT_TIMEOUT'), timeoutMs);
    connection.onLost = () => end('CONNECTION_CLOSED');
    connection.up(() =>
      server.whenRunning(() => {
        const { rejection } = server;
        if (rejection === '') server.connections.add(connection);
        connection.down(() => end(rejection));
      }),
    );
    return () => {
      isOver = true;
      client.clearTimer(timer);
      connection.close();
    };
  }

  get clientHost(): Host {
    return this.client.host;
  }

  /** Lets the server do something for the client; it resets a connection that it does not know. */
  ask(work: () => void): void {
    const { server } = this;
    this.up(() =>
      server.whenRunning(() => {
        if (server.connections.has(this)) work();
        else this.reset();
      }),
    );
  }

  /** Sends to the server. */
  up(deliver: () => void): void {
    this.#send('up', deliver);
  }

  /** Sends to the client. */
  down(deliver: () => void): void {
    this.#send('down', deliver);
  }

  /** Ends it from the side of the client. What is under way to the server arrives. */
  close(): void {
    this.isClosed = true;
    this.network.connections.delete(this);
  }

  /** Ends it from the side of the server, which may be gone: what it has sent arrives before. */
  reset(): void {
    if (this.isClosed) return;
    this.down(() => {
      if (this.isClosed) return;
      this.close();
      this.onLost?.();
    });
  }

  #send(direction: Direction, deliver: () => void): void {
    const { network } = this;
    if (this.isVoid) {
      network.onSwallowed(this.clientHost.name);
      return;
    }
    const [from, to] =
      direction === 'up'
        ? [this.clientHost.name, this.server.name]
        : [this.server.name, this.clientHost.name];
    const link = network.link(from, to);
    const backlog = this.#backlog[direction];
    if (link.isBlocked || backlog.length > 0) {
      backlog.push(deliver);
      if (!this.#isWaiting[direction]) this.#retransmit(direction, link);
      return;
    }
    this.#deliver(direction, link, deliver);
  }

  #deliver(direction: Direction, link: Link, deliver: () => void): void {
    const { world, random } = this.network;
    const delayMs = link.delayMs * random.between(0.5, random.chance(0.02) ? 8 : 1.5);
    const atMs = Math.max(this.#lastMs[direction] + 0.001, world.nowMs + delayMs);
    this.#lastMs[direction] = atMs;
    const process = direction === 'down' ? this.client : undefined;
    world.schedule(atMs, process, 'io', () => {
      if (!this.isVoid && !(direction === 'down' && this.isClosed)) deliver();
    });
  }

  #retransmit(direction: Direction, link: Link): void {
    const { world, random } = this.network;
    this.#isWaiting[direction] = true;
    const again = () => {
      if (link.isBlocked) return link.whenOpen(() => world.after(random.between(5, RETRANSMIT_MS), again));
      this.#isWaiting[direction] = false;
      for (const deliver of this.#backlog[direction].splice(0)) this.#deliver(direction, link, deliver);
    };
    again();
  }
}
