import { Redis as Client } from 'ioredis';
import { CircuitBreaker, type OnCall } from '../lib/circuit-breaker.ts';
import { BreakerCall, untilReady } from './breaker-call.ts';
import { MgetConnection } from './mget.ts';
import { evictionPolicyOf, OwnMarkers, SET_MARKER } from './own-markers.ts';
import { boundReplies } from './reply-bound.ts';
import type { ReplyReader, Values } from './reply-parser.ts';
import {
  allRejected,
  COUNT_WINDOW,
  oversOf,
  rejectedOf,
  SET_EACH,
  STORE_NEWER,
  scannedOf,
  windowArguments,
  windowCountOf,
} from './scripts.ts';
import {
  clientOptions,
  type Login,
  type RedisStore,
  type RejectedValue,
  SCAN_COUNT,
  type TimedValue,
  type Versioned,
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
  storeNewer(keyCount: number, ...rest: (string | number | Buffer)[]): Promise<(number | string)[]>;
  setEach(keyCount: number, ...rest: (string | number | Buffer)[]): Promise<null>;
  countWindow(keyCount: number, key: string, ...rest: number[]): Promise<unknown>;
}

/** Key whose value proves that a server is the right one. */
export interface Proof {
  readonly key: string;
  /** `value`: undefined if the server has none */
  isGivenBy(value: string | undefined): boolean;
}

/** Client of one Redis server: versioned values, one deadline, one circuit breaker. */
export class Redis implements RedisStore {
  readonly #client: ScriptedClient;
  readonly #mget: MgetConnection;
  readonly #breaker: CircuitBreaker;
  readonly #call: BreakerCall;
  readonly #ownMarkers = new OwnMarkers();
  readonly #clients: Client[];
  /** what a server must prove before it is used again */
  #proof: Proof | undefined;
  #reconnectedAtMs = -Infinity;

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
      scripts: {
        storeNewer: { lua: STORE_NEWER },
        setEach: { lua: SET_EACH },
        countWindow: { lua: COUNT_WINDOW },
      },
    }) as ScriptedClient;
    const connector = url.startsWith('redis:') ? { Connector: ViewConnector } : {};
    const reader = new Client(url, { ...options, ...connector });
    this.#mget = new MgetConnection(reader, timeoutMs);
    this.#clients = [this.#client, reader];
    for (const client of this.#clients) boundReplies(client);
    // without a listener each failed connection would be printed; the breaker reports instead
    this.#client.on('error', () => {});
    this.#breaker = new CircuitBreaker({
      probe: () => this.#probe(),
      failuresToOpen: FAILURES_TO_OPEN,
      probeEveryMs: 200,
      onChange: onBreaker,
    });
  }

  connected(timeoutMs: number): Promise<boolean> {
    return untilReady(() => this.#client.status === 'ready' && this.#mget.ready, timeoutMs);
  }

  /** Number of the present connection for reads, from 1. */
  get connection(): number {
    return this.#mget.connection;
  }

  readMany(keys: readonly string[], prefix: string): Promise<Values | undefined> {
    return this.#guard(() => this.#mget.read(keys, prefix));
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

  async storeNewer(values: Versioned[], ttlMs: number): Promise<RejectedValue[] | undefined> {
    const replies = await this.#inParts(values, (part) =>
      this.#client.storeNewer(
        part.length,
        ...part.map(([key]) => key),
        ttlMs,
        ...part.map(([, value]) => value),
        ...oversOf(part),
      ),
    );
    return (
      replies && allRejected(replies.map(([reply, start]) => rejectedOf(reply, start, values.length - start)))
    );
  }

  async setMany(values: TimedValue[], onlyIfNone: boolean): Promise<true | undefined> {
    const replies = await this.#inParts(values, (part) =>
      this.#client.setEach(
        part.length,
        ...part.map(([key]) => key),
        onlyIfNone ? 'NX' : '',
        ...part.flatMap(([, value, ttlMs]) => [value, ttlMs]),
      ),
    );
    return replies && true;
  }

  remove(keys: string[]): Promise<true | undefined> {
    return this.#guard(() => this.#call.inTime(this.#client.unlink(keys)).then((): true => true));
  }

  scan(cursor: string, pattern: string): Promise<[cursor: string, keys: string[]] | undefined> {
    return this.#guard(async () =>
      scannedOf(await this.#call.inTime(this.#client.scan(cursor, 'MATCH', pattern, 'COUNT', SCAN_COUNT))),
    );
  }

  mark(key: string, isKept: (found: string) => boolean, value: string): Promise<boolean | undefined> {
    return this.#guard(async () => {
      const reply = await this.#call.inTime(this.#client.eval(SET_MARKER, 1, key, value));
      const found = this.#ownMarkers.replaced(key, value, reply);
      return found !== null && isKept(found);
    });
  }

  countWindow(key: string, use: WindowUse): Promise<WindowCount | undefined> {
    return this.#guard(async () =>
      windowCountOf(await this.#call.inTime(this.#client.countWindow(1, key, ...windowArguments(use)))),
    );
  }

  /**
   * Opens the circuit breaker and new connections, because the present ones lead to the wrong server. The breaker closes
   * when a server has proved to be the right one.
   */
  distrust(reason: string, proof: Proof): void {
    this.#proof = proof;
    this.#breaker.failed(reason, FAILURES_TO_OPEN);
    this.#reconnect();
  }

  useLogin(login: Login): void {
    for (const { options } of this.#clients) Object.assign(options, login);
  }

  async evictionPolicy(): Promise<string | undefined> {
    const info = await this.#guard(() => this.#call.inTime(this.#client.info('memory')));
    return info && evictionPolicyOf(info);
  }

  close(): void {
    this.#breaker.close();
    this.#client.disconnect();
    this.#mget.close();
  }

  /**
   * Calls a script for batches of the values. Returns its replies, each with the index of its first value; undefined
   * if one is missing.
   */
  async #inParts<Value, Reply>(
    values: Value[],
    call: (part: Value[]) => Promise<Reply>,
  ): Promise<[reply: Reply, start: number][] | undefined> {
    const replies: [Reply, number][] = [];
    let next = 0;
    let failed = false;
    const callOneByOne = async () => {
      while (next < values.length && !failed) {
        const start = next;
        const part = values.slice(start, start + KEYS_PER_SCRIPT);
        next += part.length;
        const reply = await this.#guard(
          async (): Promise<[Reply, number]> => [await this.#call.inTime(call(part)), start],
        );
        if (reply) replies.push(reply);
        else failed = true;
      }
    };
    await Promise.all(Array.from({ length: SCRIPTS_AT_ONCE }, callOneByOne));
    return failed ? undefined : replies;
  }

  #guard<T>(command: () => Promise<T>): Promise<T | undefined> {
    return this.#call.call(this.#breaker, command);
  }

  async #probe(): Promise<void> {
    const proof = this.#proof;
    const [, values] = await Promise.all([
      this.#call.inTime(this.#client.ping()),
      this.#mget.read([proof?.key ?? 'probe']),
    ]);
    if (proof && !proof.isGivenBy(values.value(0)?.toString())) {
      this.#reconnect();
      throw new Error('another server than the right one');
    }
    if (this.#proof !== proof) throw new Error('distrusted meanwhile');
    this.#proof = undefined;
  }

  /** Opens new connections: after a failover the name of the server leads to the new master. */
  #reconnect(): void {
    const nowMs = performance.now();
    if (nowMs - this.#reconnectedAtMs < RECONNECT_EVERY_MS) return;
    this.#reconnectedAtMs = nowMs;
    for (const client of this.#clients) client.disconnect(true);
  }
}
