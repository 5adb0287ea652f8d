import { CircuitBreaker } from '../../src/lib/circuit-breaker.ts';
import { withDeadline } from '../../src/lib/deadline.ts';
import { BreakerCall, untilReady } from '../../src/redis/breaker-call.ts';
import { mgetOf } from '../../src/redis/mget.ts';
import { type ReplyReader, type Values, ValuesReader } from '../../src/redis/reply-parser.ts';
import type { RedisStore, TimedValue, WindowCount, WindowUse } from '../../src/redis/store.ts';
import { Connection, type Network } from './network.ts';
import type { Random } from './random.ts';
import type { Process, World } from './world.ts';

interface Stored {
  value: Buffer;
  untilMs: number;
}

/** A Redis server: it may lose, keep back, revive and evict anything. */
export class RedisServer {
  readonly name: string;
  values = new Map<string, Stored>();
  isUp = true;
  isFrozen = false;
  slowMs = 0;
  /** share of writes that are answered and lost */
  losesWrites = 0;
  /** share of writes that take effect much later, although they are answered */
  delaysWrites = 0;
  rejectsWrites = false;
  readonly connections = new Set<Connection>();
  #frozen: (() => void)[] = [];
  readonly #world: World;
  readonly #random: Random;

  constructor(world: World, name: string) {
    this.name = name;
    this.#world = world;
    this.#random = world.randomOf(`redis ${name}`);
  }

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
    this.#frozen = [];
    for (const connection of this.connections) connection.reset();
    this.connections.clear();
  }

  get delayMs(): number {
    return this.#random.between(0.02, 0.2) + this.#random.between(0, this.slowMs);
  }

  get(key: string): Buffer | undefined {
    const stored = this.values.get(key);
    return stored && stored.untilMs > this.#world.nowMs ? stored.value : undefined;
  }

  set(key: string, value: Buffer, ttlMs: number): void {
    if (this.#random.chance(this.losesWrites)) return;
    const write = () => this.values.set(key, { value, untilMs: this.#world.nowMs + ttlMs });
    if (this.#random.chance(this.delaysWrites)) this.#world.after(this.#random.between(10, 20_000), write);
    else write();
  }

  /** Removes a share of the values. */
  evict(share: number): void {
    for (const key of this.values.keys()) if (this.#random.chance(share)) this.values.delete(key);
  }

  copy(): Map<string, Stored> {
    return new Map(this.values);
  }

  /** Puts values back, over the present ones or in their place. */
  putBack(values: ReadonlyMap<string, Stored>, isWhole: boolean): void {
    if (isWhole) this.values = new Map(values);
    else for (const [key, stored] of values) this.values.set(key, stored);
  }
}

/** The Redis servers, and which of them each instance reaches. */
export class RedisServers {
  readonly servers: RedisServer[];
  readonly #byHost = new Map<string, RedisServer>();

  constructor(world: World, count: number) {
    this.servers = Array.from({ length: count }, (_, i) => new RedisServer(world, `redis${i}`));
  }

  of(host: string): RedisServer {
    return this.#byHost.get(host) ?? this.servers[0]!;
  }

  lead(host: string, server: RedisServer): void {
    this.#byHost.set(host, server);
  }
}

/** Client of Redis as src/redis/client.ts is one, without sockets: one breaker, one deadline, replies in their order. */
export class SimulatedRedis implements RedisStore {
  readonly #process: Process;
  readonly #network: Network;
  readonly #servers: RedisServers;
  readonly #timeoutMs: number;
  readonly #breaker: CircuitBreaker;
  readonly #call: BreakerCall;
  #connection: Connection | undefined;
  #isConnecting = false;
  #isClosed = false;
  #silentSinceMs: number | undefined;

  constructor(
    world: { process: Process; network: Network; servers: RedisServers },
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
  ) {
    this.#process = world.process;
    this.#network = world.network;
    this.#servers = world.servers;
    this.#timeoutMs = timeoutMs;
    this.#call = new BreakerCall(timeoutMs, () => {});
    this.#breaker = new CircuitBreaker({
      probe: () => this.#send(mgetOf(['probe']), (server) => reply([server.get('probe')])),
      failuresToOpen: 3,
      probeEveryMs: 200,
      onChange: onBreaker,
    });
    this.#connect();
  }

  connected(timeoutMs: number): Promise<boolean> {
    return untilReady(() => this.#connection !== undefined, timeoutMs);
  }

  readMany(keys: readonly string[], prefix: string): Promise<Values | undefined> {
    return this.#call.call(this.#breaker, async () => {
      const reader = new ValuesReader({ keys: keys.length });
      await this.#read(mgetOf(keys, prefix), reader);
      return reader.values;
    });
  }

  sendMget(command: Buffer, _: number, reader: ReplyReader, onSent?: () => void): Promise<true | undefined> {
    return this.#call.call(this.#breaker, async (): Promise<true> => {
      // the client sends it before its caller uses the bytes again
      const sent = Buffer.from(command);
      onSent?.();
      await this.#read(sent, reader);
      return true;
    });
  }

  async setMany(values: TimedValue[]): Promise<void> {
    for (let at = 0; at < values.length; at += 100) {
      const part = values
        .slice(at, at + 100)
        .map(([key, value, ttlMs]) => [key, Buffer.from(value), ttlMs] as const);
      const done = await this.#call.call(this.#breaker, async () => {
        await withDeadline(
          this.#send(undefined, (server) => {
            if (server.rejectsWrites) return undefined;
            for (const [key, value, ttlMs] of part) server.set(key, value, ttlMs);
            return OK;
          }),
          2 * this.#timeoutMs,
        );
        return true;
      });
      if (!done) return;
    }
  }

  async countWindow(_: string, __: WindowUse): Promise<WindowCount | undefined> {
    return undefined;
  }

  useLogin(): void {}

  close(): void {
    this.#isClosed = true;
    this.#breaker.close();
    this.#connection?.close();
    this.#connection = undefined;
  }

  /** Leads to another server from now on. */
  reconnect(): void {
    this.#lose();
  }

  async #read(command: Buffer, reader: ReplyReader): Promise<void> {
    let isLate = false;
    const names = keysOf(command);
    const received = this.#send(command, (server) => reply(names.map((name) => server.get(name)))).then(
      (bytes) => {
        // a late reply is read too, but nobody waits for it
        let at = reader.take(bytes.subarray(0, bytes.length >> 1), 0);
        if (at < 0) at = reader.take(bytes.subarray(bytes.length >> 1), 0);
        if (at < 0) throw new Error('a reply was cut');
        if (!isLate) reader.complete();
      },
    );
    await withDeadline(received, this.#timeoutMs).catch((error) => {
      isLate = true;
      throw error;
    });
  }

  #send(_: Buffer | undefined, execute: (server: RedisServer) => Buffer | undefined): Promise<Buffer> {
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    promise.catch(() => {});
    const connection = this.#connection;
    if (!connection) {
      reject(new Error('not connected to Redis'));
      return promise;
    }
    this.#silentSinceMs ??= this.#process.monotonicMs();
    if (this.#process.monotonicMs() - this.#silentSinceMs > 1_000) {
      this.#lose();
      reject(new Error('Redis is silent'));
      return promise;
    }
    const server = this.#servers.servers.find(({ name }) => name === connection.server)!;
    this.#onLost.add(reject);
    const { world } = this.#network;
    connection.up(() =>
      server.whenRunning(() => {
        if (!server.connections.has(connection)) return connection.reset();
        world.after(server.delayMs, () =>
          server.whenRunning(() => {
            if (!server.connections.has(connection)) return;
            const bytes = execute(server);
            connection.down(() => {
              if (this.#connection === connection) this.#silentSinceMs = undefined;
              this.#onLost.delete(reject);
              if (bytes) resolve(bytes);
              else reject(Object.assign(new Error('READONLY You cannot write'), { name: 'ReplyError' }));
            });
          }),
        );
      }),
    );
    return promise;
  }

  readonly #onLost = new Set<(error: Error) => void>();

  #lose(): void {
    this.#connection?.close();
    this.#connection = undefined;
    this.#silentSinceMs = undefined;
    for (const reject of [...this.#onLost]) reject(new Error('the connection to Redis is lost'));
    this.#onLost.clear();
    if (!this.#isClosed) this.#process.setTimer(() => this.#connect(), 50 + 200 * this.#process.random());
  }

  #connect(): void {
    if (this.#isClosed || this.#connection || this.#isConnecting) return;
    this.#isConnecting = true;
    const server = this.#servers.of(this.#process.host.name);
    const connection = new Connection(this.#network, this.#process, server.name);
    const end = (isOpen: boolean) => {
      if (!this.#isConnecting) return;
      this.#isConnecting = false;
      this.#process.clearTimer(timer);
      if (isOpen) {
        this.#connection = connection;
        connection.onLost = () => this.#connection === connection && this.#lose();
      } else {
        connection.close();
        this.#lose();
      }
    };
    const timer = this.#process.setTimer(() => end(false), 500);
    connection.up(() =>
      server.whenRunning(() => {
        if (server.isUp) server.connections.add(connection);
        const { isUp } = server;
        connection.down(() => end(isUp));
      }),
    );
  }
}

const OK = Buffer.from('+OK\r\n');

/** Returns the names of the keys of an MGET, as the server reads them. */
function keysOf(command: Buffer): string[] {
  const names: string[] = [];
  let at = command.indexOf('\r\n') + 2;
  while (at < command.length) {
    const lineEnd = command.indexOf('\r\n', at);
    const length = Number(command.toString('latin1', at + 1, lineEnd));
    names.push(command.toString('utf8', lineEnd + 2, lineEnd + 2 + length));
    at = lineEnd + 4 + length;
  }
  return names.slice(1);
}

function reply(values: (Buffer | undefined)[]): Buffer {
  const parts: Buffer[] = [Buffer.from(`*${values.length}\r\n`)];
  for (const value of values) {
    if (!value) parts.push(Buffer.from('$-1\r\n'));
    else parts.push(Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n'));
  }
  return Buffer.concat(parts);
}
