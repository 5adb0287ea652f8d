import { Redis as Client } from 'ioredis';
import { withDeadline } from '../lifecycle.ts';
import { Breaker, type OnCall } from './breaker.ts';
import { MgetConnection } from './mget.ts';
import type { ReplyReader, Values } from './reply.ts';
import { ViewConnector } from './view-connector.ts';

/**
 * Stores versioned values: KEYS the keys, ARGV[1] the longest time to live in ms, then one value a key. Every value
 * begins with a checksum, by which it lives down to half as long (see `lifetimeMs`), and carries a magic number at
 * byte 4 and its version as a little-endian double at byte 8; what stands there
 * with a larger version stays, anything that is no such value is replaced. Returns the places (from 1) of
 * those that were refused.
 */
const STORE_NEWER = `
local refused = {}
for i = 1, #KEYS do
  local value = ARGV[i + 1]
  local head = redis.pcall('getrange', KEYS[i], 4, 15)
  local newer = false
  if type(head) == 'string' and #head == 12 and string.sub(head, 1, 4) == string.sub(value, 5, 8) then
    newer = struct.unpack('<d', string.sub(head, 5, 12)) > struct.unpack('<d', string.sub(value, 9, 16))
  end
  if newer then
    refused[#refused + 1] = i
  else
    local share = 1 - struct.unpack('<I4', value) / 8589934592
    redis.call('set', KEYS[i], value, 'PX', math.floor(ARGV[1] * share))
  end
end
return refused`;

/** Scripts block the server: more keys than these go in several calls. */
const KEYS_PER_SCRIPT = 100;
/** Calls of one `storeNewer` under way at once; more would make each wait for the others beyond its deadline. */
const SCRIPTS_AT_ONCE = 4;

/** Replies of a server that can answer nothing at present. */
const AWAY = /^(LOADING|MASTERDOWN|CLUSTERDOWN|NOAUTH|WRONGPASS)/;

interface Scripted extends Client {
  storeNewer(keyCount: number, ...rest: (string | number | Buffer)[]): Promise<number[]>;
}

/**
 * Redis as the service uses it: values that carry versions, one deadline, one breaker. Nothing here throws:
 * while Redis is away reads find nothing and writes do nothing, and both say so by returning undefined.
 */
export class Redis {
  readonly #client: Scripted;
  readonly #mget: MgetConnection;
  readonly #breaker: Breaker;
  readonly #timeoutMs: number;
  readonly #onCall: OnCall;

  /** Connects to `url`; `onBreaker` is told when Redis is given up and when it is used again. */
  constructor(
    url: string,
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
  ) {
    this.#timeoutMs = timeoutMs;
    this.#onCall = onCall;
    const options = {
      protocol: 2 as const,
      socketTimeout: 10 * timeoutMs,
      connectTimeout: 500,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      enableReadyCheck: true,
      // CLIENT SETINFO is a right that nothing else needs, and one that not every version can grant alone
      disableClientInfo: true,
      retryStrategy: (attempt: number) => Math.min(50 * attempt, 500),
    };
    this.#client = new Client(url, { ...options, scripts: { storeNewer: { lua: STORE_NEWER } } }) as Scripted;
    const connector = url.startsWith('redis:') ? { Connector: ViewConnector } : {};
    this.#mget = new MgetConnection(new Client(url, { ...options, ...connector }), timeoutMs);
    // without a listener each failed connection would be printed; the breaker reports instead
    this.#client.on('error', () => {});
    this.#breaker = new Breaker({
      probe: () => Promise.all([this.#inTime(this.#client.ping()), this.#mget.read(['probe'])]),
      // one answer that is late is a hiccup, and while PostgreSQL is away Redis is all there is
      failuresToOpen: 3,
      probeEveryMs: 200,
      onChange: onBreaker,
    });
  }

  get breakerOpen(): boolean {
    return this.#breaker.open;
  }

  /** Resolves when the first connection stands, or after `timeoutMs` without one. */
  async connected(timeoutMs: number): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    const isReady = () => this.#client.status === 'ready' && this.#mget.ready;
    while (!isReady() && performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return isReady();
  }

  /** What stands under the keys, each with `prefix` before it; undefined while Redis is away. */
  readMany(keys: readonly string[], prefix: string): Promise<Values | undefined> {
    return this.#guard(() => this.#mget.read(keys, prefix));
  }

  /** What an MGET of so many keys finds, which is written out; undefined while Redis is away. */
  askMany(command: Uint8Array, keys: number): Promise<Values | undefined> {
    return this.#guard(() => this.#mget.readBy(command, keys));
  }

  /** Sends an MGET of so many keys, whose reply `reader` reads; undefined when it was not answered. */
  ask(command: Uint8Array, keys: number, reader: ReplyReader): Promise<true | undefined> {
    return this.#guard(async (): Promise<true> => {
      await this.#mget.ask(command, keys, reader);
      return true;
    });
  }

  /**
   * Stores versioned values unless a newer one stands there, for half of `ttlMs` to all of it. Returns the places of those that were refused;
   * undefined when not all were sent.
   */
  async storeNewer(values: [key: string, value: Buffer][], ttlMs: number): Promise<number[] | undefined> {
    const refused: number[] = [];
    let next = 0;
    let failed = false;
    const sendOneByOne = async () => {
      while (next < values.length && !failed) {
        const start = next;
        const part = values.slice(start, start + KEYS_PER_SCRIPT);
        next += part.length;
        const places = await this.#guard(() =>
          this.#inTime(
            this.#client.storeNewer(
              part.length,
              ...part.map(([key]) => key),
              ttlMs,
              ...part.map(([, value]) => value),
            ),
          ),
        );
        if (places) for (const place of places) refused.push(start + place - 1);
        else failed = true;
      }
    };
    await Promise.all(Array.from({ length: SCRIPTS_AT_ONCE }, sendOneByOne));
    return failed ? undefined : refused;
  }

  /** Sets texts, where `onlyIfNone` only those that have no value yet. Returns undefined when not all were sent. */
  setMany(
    values: [key: string, value: string | Buffer, ttlMs: number][],
    onlyIfNone: boolean,
  ): Promise<true | undefined> {
    return this.#guard(async (): Promise<true> => {
      const pipeline = this.#client.pipeline();
      for (const [key, value, ttlMs] of values) {
        if (onlyIfNone) pipeline.set(key, value, 'PX', ttlMs, 'NX');
        else pipeline.set(key, value, 'PX', ttlMs);
      }
      for (const [error] of (await this.#inTime(pipeline.exec())) ?? []) if (error) throw error;
      return true;
    });
  }

  /** Removes keys: for values that are no values of ours, whatever version they claim to have. */
  remove(keys: string[]): Promise<number | undefined> {
    return this.#guard(() => this.#inTime(this.#client.unlink(keys)));
  }

  /** Some of the keys that match a pattern, and the cursor for the next: '0' at the start and when all were seen. */
  scan(
    cursor: string,
    pattern: string,
    count: number,
  ): Promise<[cursor: string, keys: string[]] | undefined> {
    return this.#guard(() => this.#inTime(this.#client.scan(cursor, 'MATCH', pattern, 'COUNT', count)));
  }

  /** Sets a text and returns what stood there before (null: nothing); undefined when Redis is away. */
  exchange(key: string, value: string): Promise<string | null | undefined> {
    return this.#guard(() => this.#inTime(this.#client.getset(key, value)));
  }

  close(): void {
    this.#breaker.close();
    this.#client.disconnect();
    this.#mget.close();
  }

  /**
   * For what nobody waits for: whether Redis is away, reads find out. Not ioredis' commandTimeout, which calls answers
   * late that wait unread in a busy process.
   */
  #inTime<T>(command: Promise<T>): Promise<T> {
    return withDeadline(command, 2 * this.#timeoutMs);
  }

  async #guard<T>(command: () => Promise<T>): Promise<T | undefined> {
    if (this.#breaker.open) return undefined;
    const startedAtMs = performance.now();
    let succeeded = false;
    try {
      const result = await command();
      this.#breaker.succeeded();
      succeeded = true;
      return result;
    } catch (error) {
      const { name, message } = error as Error;
      // a server that refuses one command (READONLY, OOM, NOPERM) is not away: others of its answers are good
      if (name !== 'ReplyError' || AWAY.test(message)) this.#breaker.failed(message);
      return undefined;
    } finally {
      this.#onCall((performance.now() - startedAtMs) / 1000, succeeded);
    }
  }
}
