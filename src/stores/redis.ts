import { Redis as Client } from 'ioredis';
import { Breaker } from './breaker.ts';
import { MgetConnection } from './mget.ts';

/**
 * Stores versioned values: KEYS the keys, ARGV[1] the time to live in ms, then one value a key. Every value
 * carries a magic number at byte 4 and its version as a little-endian double at byte 8; what stands there
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
    redis.call('set', KEYS[i], value, 'PX', ARGV[1])
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

  /** Connects to `url`; `onBreaker` is told when Redis is given up and when it is used again. */
  constructor(url: string, timeoutMs: number, onBreaker: (open: boolean, reason: string) => void) {
    const options = {
      protocol: 2 as const,
      commandTimeout: timeoutMs,
      socketTimeout: 10 * timeoutMs,
      connectTimeout: 500,
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      enableReadyCheck: true,
      retryStrategy: (attempt: number) => Math.min(50 * attempt, 500),
    };
    this.#client = new Client(url, { ...options, scripts: { storeNewer: { lua: STORE_NEWER } } }) as Scripted;
    this.#mget = new MgetConnection(new Client(url, options), timeoutMs);
    // without a listener each failed connection would be printed; the breaker reports instead
    this.#client.on('error', () => {});
    this.#breaker = new Breaker({
      probe: () => Promise.all([this.#client.ping(), this.#mget.read(['probe'])]),
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

  /** The values in the order of the keys, null where there is none; views of the reply, not to be kept. */
  readMany(keys: readonly string[]): Promise<(Buffer | null)[] | undefined> {
    return this.#guard(() => this.#mget.read(keys));
  }

  /** The same for short texts. */
  async readTexts(keys: readonly string[]): Promise<(string | null)[] | undefined> {
    const values = await this.readMany(keys);
    return values?.map((value) => value?.toString() ?? null);
  }

  /**
   * Stores versioned values unless a newer one stands there. Returns the places of those that were refused;
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
          this.#client.storeNewer(
            part.length,
            ...part.map(([key]) => key),
            ttlMs,
            ...part.map(([, value]) => value),
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
    values: [key: string, value: string | Buffer][],
    ttlMs: number,
    onlyIfNone: boolean,
  ): Promise<true | undefined> {
    return this.#guard(async (): Promise<true> => {
      const pipeline = this.#client.pipeline();
      for (const [key, value] of values) {
        if (onlyIfNone) pipeline.set(key, value, 'PX', ttlMs, 'NX');
        else pipeline.set(key, value, 'PX', ttlMs);
      }
      for (const [error] of (await pipeline.exec()) ?? []) if (error) throw error;
      return true;
    });
  }

  /** Removes keys: for values that are no values of ours, whatever version they claim to have. */
  remove(keys: string[]): Promise<number | undefined> {
    return this.#guard(() => this.#client.unlink(keys));
  }

  /** Some of the keys that match a pattern, and the cursor for the next: '0' at the start and when all were seen. */
  scan(
    cursor: string,
    pattern: string,
    count: number,
  ): Promise<[cursor: string, keys: string[]] | undefined> {
    return this.#guard(() => this.#client.scan(cursor, 'MATCH', pattern, 'COUNT', count));
  }

  /** Sets a text and returns what stood there before (null: nothing); undefined when Redis is away. */
  exchange(key: string, value: string): Promise<string | null | undefined> {
    return this.#guard(() => this.#client.getset(key, value));
  }

  close(): void {
    this.#breaker.close();
    this.#client.disconnect();
    this.#mget.close();
  }

  async #guard<T>(command: () => Promise<T>): Promise<T | undefined> {
    if (this.#breaker.open) return undefined;
    try {
      const result = await command();
      this.#breaker.succeeded();
      return result;
    } catch (error) {
      const { name, message } = error as Error;
      // a server that refuses one command (READONLY, OOM, NOPERM) is not away: others of its answers are good
      if (name !== 'ReplyError' || AWAY.test(message)) this.#breaker.failed(message);
      return undefined;
    }
  }
}
