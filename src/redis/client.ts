import { Redis as Client } from 'ioredis';
import { CircuitBreaker, type OnCall } from '../lib/circuit-breaker.ts';
import { monotonicMs } from '../lib/clock.ts';
import { BreakerCall, untilReady } from './breaker-call.ts';
import { MgetConnection } from './mget.ts';
import { boundReplies } from './reply-bound.ts';
import type { ReplyReader } from './reply-parser.ts';
import { COUNT_WINDOW, SET_EACH, windowArguments, windowCountOf } from './scripts.ts';
import {
  clientOptions,
  type Login,
  notConnected,
  type RedisStore,
  type TimedValue,
  valueIn,
  type WindowCount,
  type WindowUse,
} from './store.ts';
import { ViewConnector } from './view-connector.ts';

/** Maximum number of keys per script call, because scripts block the server. */
const KEYS_PER_SCRIPT = 100;
/** Error of a write to a server that has become a replica. Scripts of Redis 6 put it behind other words. */
const READ_ONLY = /READONLY/;
/** Minimum interval of new connections then: each interrupts the reads, and the name may lead to the replica for long. */
const RECONNECT_EVERY_MS = 10_000;
/**
 * Number of failed calls in a row after which the circuit breaker opens. One late response is not an outage, and while
 * PostgreSQL is unavailable Redis is the only tier.
 */
const FAILURES_TO_OPEN = 3;
/** Maximum number of concurrent calls of one script; more would make each wait beyond its deadline. */
const SCRIPTS_AT_ONCE = 4;

interface ScriptedClient extends Client {
  setEach(keyCount: number, ...rest: (string | number | Buffer)[]): Promise<null>;
  countWindow(keyCount: number, key: string, ...rest: number[]): Promise<unknown>;
}

/** Client of one Redis server: one deadline, one circuit breaker. */
export class Redis implements RedisStore {
  readonly #client: ScriptedClient;
  readonly #mget: MgetConnection;
  readonly #breaker: CircuitBreaker;
  readonly #call: BreakerCall;
  readonly #clients: Client[];
  #reconnectedAtMs = -Infinity;
  /** of the connection for writing; the one for reading has its own */
  #lastError = '';

  /** Connects to `url`; `onBreaker` is called when the breaker opens and closes. */
  constructor(
    url: string,
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
  ) {
    this.#call = new BreakerCall(timeoutMs, onCall, ({ message }) => {
      if (READ_ONLY.test(message)) this.#reconnect();
    });
    const options = clientOptions(timeoutMs);
    this.#client = new Client(url, {
      ...options,
      scripts: { setEach: { lua: SET_EACH }, countWindow: { lua: COUNT_WINDOW } },
    }) as ScriptedClient;
    const connector = url.startsWith('redis:') ? { Connector: ViewConnector } : {};
    const reader = new Client(url, { ...options, ...connector });
    this.#mget = new MgetConnection(reader, timeoutMs);
    this.#clients = [this.#client, reader];
    for (const client of this.#clients) boundReplies(client);
    // without a listener each failed connection would be printed; the breaker reports instead
    this.#client.on('error', ({ message }) => {
      this.#lastError = message;
    });
    this.#breaker = new CircuitBreaker({
      probe: async () => {
        await Promise.all([this.#call.inTime(this.#client.ping()), this.#mget.probe()]);
      },
      failuresToOpen: FAILURES_TO_OPEN,
      probeEveryMs: 200,
      onChange: onBreaker,
    });
  }

  connected(timeoutMs: number): Promise<boolean> {
    return untilReady(() => this.#client.status === 'ready' && this.#mget.ready, timeoutMs);
  }

  read(key: string): Promise<Buffer | null | undefined> {
    return this.#guard(async () => valueIn(await this.#send(() => this.#client.mgetBuffer(key))));
  }

  sendMget(
    command: Buffer,
    keys: number,
    reader: ReplyReader,
    onSent?: () => void,
  ): Promise<true | undefined> {
    return this.#guard(async (): Promise<true> => {
      await this.#mget.sendMget(command, keys, reader, onSent);
      return true;
    });
  }

  async setMany(values: TimedValue[]): Promise<void> {
    let next = 0;
    let failed = false;
    const setPartByPart = async () => {
      while (next < values.length && !failed) {
        const part = values.slice(next, next + KEYS_PER_SCRIPT);
        next += part.length;
        const reply = await this.#guard(() => this.#send(() => this.#setEach(part)));
        failed ||= reply === undefined;
      }
    };
    await Promise.all(Array.from({ length: SCRIPTS_AT_ONCE }, setPartByPart));
  }

  countWindow(key: string, use: WindowUse): Promise<WindowCount | undefined> {
    return this.#guard(async () =>
      windowCountOf(await this.#send(() => this.#client.countWindow(1, key, ...windowArguments(use)))),
    );
  }

  useLogin(login: Login): void {
    for (const { options } of this.#clients) Object.assign(options, login);
  }

  close(): void {
    this.#breaker.close();
    this.#client.disconnect();
    this.#mget.close();
  }

  #setEach(part: TimedValue[]): Promise<null> {
    return this.#client.setEach(
      part.length,
      ...part.map(([key]) => key),
      ...part.flatMap(([, value, ttlMs]) => [value, ttlMs]),
    );
  }

  /** Sends a command in time. ioredis would not say why there is no connection. */
  async #send<T>(command: () => Promise<T>): Promise<T> {
    if (this.#client.status !== 'ready') throw notConnected(this.#lastError);
    return this.#call.inTime(command());
  }

  #guard<T>(command: () => Promise<T>): Promise<T | undefined> {
    return this.#call.call(this.#breaker, command);
  }

  /** Opens new connections: after a failover the name of the server leads to the new master. */
  #reconnect(): void {
    const nowMs = monotonicMs();
    if (nowMs - this.#reconnectedAtMs < RECONNECT_EVERY_MS) return;
    this.#reconnectedAtMs = nowMs;
    for (const client of this.#clients) client.disconnect(true);
  }
}
