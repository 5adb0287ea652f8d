import { Redis as Client, type RedisOptions } from 'ioredis';
import { CircuitBreaker, type OnCall } from '../lib/circuit-breaker.ts';
import { monotonicMs, pause } from '../lib/clock.ts';
import { withDeadline } from '../lib/deadline.ts';
import { MgetConnection, ViewConnector } from './mget.ts';
import { boundReplies } from './reply-bound.ts';
import { type Values, ValuesReader } from './reply-parser.ts';
import {
  COUNT_WINDOW,
  clientOptions,
  disconnectionOf,
  isUnavailable,
  type Login,
  type RedisStore,
  SET_EACH,
  type TimedValue,
  valueIn,
  type WindowCount,
  type WindowUse,
  windowCountOf,
} from './store.ts';

/** Maximum number of keys per write, because scripts block the server. */
const KEYS_PER_WRITE = 100;
/** Error of a write to a server that has become a replica. Scripts of Redis 6 put it behind other words. */
const READ_ONLY = /READONLY/;
/** Error of a command for a key whose slot another node of the cluster has. */
const MOVED = /^MOVED /;
/** Minimum interval of new connections then: each interrupts the reads, and the name may lead to the replica for long. */
const RECONNECT_EVERY_MS = 10_000;
/** Any key that the service may read. */
const PROBE_KEY = 'probe';
const PROBE_COMMAND = Buffer.from(`*2\r\n$4\r\nMGET\r\n$${PROBE_KEY.length}\r\n${PROBE_KEY}\r\n`);

/**
 * Client of one Redis server, or of one node of a cluster, with one circuit breaker. Reads by MGET have the deadline
 * `timeoutMs` and 20 µs more for each key, other commands twice `timeoutMs`. No call is made while the breaker is open, and a
 * failure is reported as undefined.
 */
export class Redis implements RedisStore {
  readonly #isNode: boolean;
  readonly #client: Client;
  readonly #mget: MgetConnection;
  readonly #breaker: CircuitBreaker;
  readonly #timeoutMs: number;
  readonly #onCall: OnCall;
  readonly #onMoved: () => void;
  readonly #clients: Client[];
  #reconnectedAtMs = -Infinity;
  /** of the connection for writing; the one for reading has its own */
  readonly #disconnection: () => Error;

  /**
   * Connects to an address or a node. `onBreaker` is called when the breaker opens and closes, `onMoved` when another node may
   * have the slots of this one.
   */
  constructor(
    server: string | RedisOptions,
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
    onMoved: () => void = () => {},
  ) {
    this.#isNode = typeof server !== 'string';
    this.#timeoutMs = timeoutMs;
    this.#onCall = onCall;
    this.#onMoved = onMoved;
    const connect = (options: RedisOptions) => {
      const all = { ...clientOptions(timeoutMs), ...options };
      return typeof server === 'string' ? new Client(server, all) : new Client({ ...all, ...server });
    };
    const isPlain = typeof server === 'string' ? server.startsWith('redis:') : !server.tls;
    this.#client = connect({});
    const reader = connect(isPlain ? { Connector: ViewConnector } : {});
    this.#mget = new MgetConnection(reader, timeoutMs);
    this.#clients = [this.#client, reader];
    for (const client of this.#clients) boundReplies(client);
    this.#disconnection = disconnectionOf(this.#client);
    this.#breaker = new CircuitBreaker(() => this.#probe(), onBreaker);
  }

  get ready(): boolean {
    return this.#client.status === 'ready' && this.#mget.ready;
  }

  read(key: string): Promise<Buffer | null | undefined> {
    return this.#guard(async () => valueIn(await this.#send(() => this.#client.mgetBuffer(key))));
  }

  sendMget(
    command: Buffer,
    keys: number,
    reader: ValuesReader,
    onSent?: () => void,
  ): Promise<true | undefined> {
    return this.#guard(async (): Promise<true> => {
      await this.#mget.sendMget(command, keys, reader, onSent);
      return true;
    });
  }

  /** Sends MGETs of one key each to a node, and returns their values. A rejected key counts as null. */
  readEach(commands: Buffer, keys: number): Promise<Values | undefined> {
    return this.#guard(() => this.#readEach(commands, keys));
  }

  async setMany(values: TimedValue[]): Promise<void> {
    for (let from = 0; from < values.length; from += KEYS_PER_WRITE) {
      const part = values.slice(from, from + KEYS_PER_WRITE);
      const isSet = await this.#guard(() => this.#send(() => this.#set(part)));
      if (!isSet) return;
    }
  }

  countWindow(key: string, { limit, windowMs, wanted }: WindowUse): Promise<WindowCount | undefined> {
    return this.#guard(async () =>
      windowCountOf(await this.#send(() => this.#client.eval(COUNT_WINDOW, 1, key, limit, windowMs, wanted))),
    );
  }

  /** Requests the slot map of a node of a cluster; rejects if it does not reply in time. It is no read, and is not counted. */
  slotMap(): Promise<unknown> {
    return this.#send(() => this.#client.call('CLUSTER', 'SLOTS'));
  }

  useLogin(login: Login): void {
    for (const { options } of this.#clients) Object.assign(options, login);
  }

  close(): void {
    this.#breaker.stop();
    for (const client of this.#clients) client.disconnect();
  }

  async #readEach(commands: Buffer, keys: number): Promise<Values> {
    const reader = new ValuesReader({ keys: 1, replies: keys });
    await this.#mget.sendMget(commands, keys, reader);
    const { values, errors } = reader;
    if (errors.some(({ message }) => MOVED.test(message))) this.#onMoved();
    const unavailable = errors.find(isUnavailable);
    if (unavailable) throw unavailable;
    return values;
  }

  /** A script for keys of several slots would be rejected by a node. */
  async #set(part: TimedValue[]): Promise<true> {
    if (this.#isNode) {
      const commands = part.map(([key, value, ttlMs]) => ['set', key, value, 'PX', ttlMs]);
      const replies = (await this.#client.pipeline(commands).exec()) ?? [];
      for (const [error] of replies) if (error) throw error;
    } else {
      const keys = part.map(([key]) => key);
      const values = part.flatMap(([, value, ttlMs]) => [value, ttlMs]);
      await this.#client.eval(SET_EACH, keys.length, ...keys, ...values);
    }
    return true;
  }

  /** Rejects if the server serves no command at present. */
  async #probe(): Promise<void> {
    this.#onMoved();
    const written = this.#inTime(this.#client.mgetBuffer(PROBE_KEY)).catch((error: Error) => {
      // a redirection also shows that the server responds
      if (isUnavailable(error)) throw error;
    });
    await Promise.all([written, this.#readEach(PROBE_COMMAND, 1)]);
  }

  /** Sends a command in time. ioredis would not say why there is no connection, or no longer. */
  async #send<T>(command: () => Promise<T>): Promise<T> {
    const isReady = () => this.#client.status === 'ready' && this.#client.stream.writable;
    if (!isReady()) throw this.#disconnection();
    return this.#inTime(command()).catch((error) => {
      throw isReady() ? error : this.#disconnection();
    });
  }

  /**
   * Applies twice the deadline to commands of ioredis. It replaces its commandTimeout, which reports unread responses as late in a
   * busy process.
   */
  #inTime<T>(command: Promise<T>): Promise<T> {
    return withDeadline(command, 2 * this.#timeoutMs);
  }

  /** Returns the result of a command; undefined if it failed or the breaker is open. Counts every call. */
  async #guard<T>(command: () => Promise<T>): Promise<T | undefined> {
    if (this.#breaker.open) return undefined;
    const startedAtMs = monotonicMs();
    let succeeded = false;
    try {
      const result = await command();
      this.#breaker.succeeded();
      succeeded = true;
      return result;
    } catch (error) {
      const { message } = error as Error;
      if (isUnavailable(error as Error)) this.#breaker.failed(message);
      if (READ_ONLY.test(message)) this.#reconnect();
      if (MOVED.test(message)) this.#onMoved();
      return undefined;
    } finally {
      this.#onCall((monotonicMs() - startedAtMs) / 1000, succeeded);
    }
  }

  /** Opens new connections: after a failover the name of the server leads to the new master. */
  #reconnect(): void {
    const nowMs = monotonicMs();
    if (nowMs - this.#reconnectedAtMs < RECONNECT_EVERY_MS) return;
    this.#reconnectedAtMs = nowMs;
    for (const client of this.#clients) client.disconnect(true);
  }
}

/** Waits until the first connections are open, or for `timeoutMs`. Returns whether they are. */
export async function waitUntilReady(redis: RedisStore, timeoutMs: number): Promise<boolean> {
  const untilMs = monotonicMs() + timeoutMs;
  while (!redis.ready && monotonicMs() < untilMs) await pause(10);
  return redis.ready;
}
