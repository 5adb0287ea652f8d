import { hash } from 'node:crypto';
import slotOf from 'cluster-key-slot';
import { Cluster } from 'ioredis';
import { withDeadline } from '../../lifecycle.ts';
import { Breaker, type OnCall } from '../breaker.ts';
import { joined, Values } from '../reply.ts';
import { clientOptions, isAway, retryAfterMs, type SharedStore } from '../shared-store.ts';
import { STORE_NEWER } from '../store-newer.ts';
import { JointBreaker } from './joint-breaker.ts';
import { Marks } from './marks.ts';
import { type Access, type Master, Masters } from './masters.ts';

const STORE_NEWER_SHA1 = hash('sha1', STORE_NEWER);
/** Commands of one call under way at once; more would make each wait for the others beyond its deadline. */
const COMMANDS_AT_ONCE = 1_000;
/** What moves or fails is noticed by those who ask for it; this is for what nobody asks for. */
const REFRESH_SLOTS_MS = 5_000;
const REDIRECTIONS = 4;

/** One key, and what is done to it. */
type Command = [key: string, name: string, ...args: (string | number | Buffer)[]];

/**
 * A Redis Cluster as the service uses it. Keys carry no hash tags, so that a batch spreads over all nodes: what is read
 * is asked of each node at once, in one round trip, and a node that is away takes only its own keys with it. ioredis
 * keeps the map of the slots, and sends again what a node says that another has.
 */
export class RedisCluster implements SharedStore {
  readonly #cluster: Cluster;
  readonly #masters: Masters;
  readonly #marks = new Marks();
  readonly #timeoutMs: number;
  readonly #onCall: OnCall;
  /** for when no node is known */
  readonly #unknown: Breaker;
  #lastError = 'no node of the cluster has answered yet';

  /**
   * Connects to the cluster of which `urls` are some nodes; user, password and kind of connection are those of the
   * first. `onBreaker` is told when the first node is given up, and when the last is used again.
   */
  constructor(
    urls: string[],
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
  ) {
    this.#timeoutMs = timeoutMs;
    this.#onCall = onCall;
    const addresses = urls.map((url) => new URL(url));
    const access = accessBy(addresses[0]!);
    const { retryStrategy: _, enableOfflineQueue: __, ...redisOptions } = clientOptions(timeoutMs);
    this.#cluster = new Cluster(
      addresses.map(({ hostname, port }) => ({
        host: hostname.replace(/^\[|\]$/g, ''),
        port: Number(port || 6379),
      })),
      {
        redisOptions: { ...redisOptions, ...access },
        clusterRetryStrategy: retryAfterMs,
        slotsRefreshTimeout: Math.max(timeoutMs, 250),
        slotsRefreshInterval: REFRESH_SLOTS_MS,
        maxRedirections: REDIRECTIONS,
        retryDelayOnFailover: 50,
        retryDelayOnClusterDown: 50,
        retryDelayOnTryAgain: 20,
      },
    );
    // without a listener each failed connection would be printed; the breakers report instead
    this.#cluster.on('error', ({ message, lastNodeError }: Error & { lastNodeError?: Error }) => {
      this.#lastError = lastNodeError?.message ?? message;
    });
    // a node that is lost may have a successor
    this.#cluster.on('-node', () => this.#masters.refresh());
    const joint = new JointBreaker(onBreaker);
    this.#masters = new Masters(this.#cluster, access, timeoutMs, joint);
    this.#unknown = new Breaker({
      probe: async () => {
        if (this.#masters.all.length === 0) throw new Error(this.#lastError);
      },
      failuresToOpen: 3,
      probeEveryMs: 200,
      onChange: (open, reason) => joint.changed('the cluster', open, reason),
    });
  }

  async connected(timeoutMs: number): Promise<boolean> {
    const until = performance.now() + timeoutMs;
    const isReady = () =>
      this.#isReady && this.#masters.all.length > 0 && this.#masters.all.every(({ mget }) => mget.ready);
    while (!isReady() && performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return isReady();
  }

  async readMany(keys: readonly string[], prefix: string): Promise<Values | undefined> {
    const parts: { values: Values; at: readonly number[] }[] = [];
    const answered = await this.#eachMaster(
      keys.map((key) => prefix + key),
      async (master, at) => {
        const asked = at.map((i) => keys[i]!);
        const { values, refusals } = await master.mget.readEach(asked, prefix);
        parts.push({ values, at });
        if (refusals.length === 0) return;
        const away = refusals.find(([, error]) => isAway(error));
        if (away || refusals.some(([, { message }]) => message.startsWith('MOVED '))) this.#masters.refresh();
        if (away) throw away[1];
        const elsewhere = refusals.filter(([, { message }]) => /^(MOVED|ASK) /.test(message));
        await Promise.all(
          elsewhere.map(async ([place]) => {
            const value = await this.#readElsewhere(prefix + asked[place]!);
            if (value) parts.push({ values: new Values(value, [0, value.length]), at: [at[place]!] });
          }),
        );
      },
    );
    return answered.some(Boolean) ? joined(parts, keys.length) : undefined;
  }

  async storeNewer(values: [key: string, value: Buffer][], ttlMs: number): Promise<number[] | undefined> {
    const answers = await this.#send(
      values.map(([key, value]) => [key, 'evalsha', STORE_NEWER_SHA1, 1, key, ttlMs, value]),
    );
    return answers?.flatMap((refused, place) => ((refused as number[]).length > 0 ? [place] : []));
  }

  async setMany(
    values: [key: string, value: string | Buffer, ttlMs: number][],
    onlyIfNone: boolean,
  ): Promise<true | undefined> {
    const answers = await this.#send(
      values.map(([key, value, ttlMs]) => [
        key,
        'set',
        ...[key, value, 'PX', ttlMs],
        ...(onlyIfNone ? ['NX'] : []),
      ]),
    );
    return answers && true;
  }

  async remove(keys: string[]): Promise<number | undefined> {
    const answers = await this.#send(keys.map((key) => [key, 'unlink', key]));
    return answers?.reduce((sum: number, removed) => sum + (removed as number), 0);
  }

  /** Walks through one master after the other; one that goes meanwhile is passed over. */
  async scan(
    cursor: string,
    pattern: string,
    count: number,
  ): Promise<[cursor: string, keys: string[]] | undefined> {
    const [name = '', at = '0'] = cursor === '0' ? [] : cursor.split(' ');
    const masters = this.#masters.all.sort((one, other) => (one.name < other.name ? -1 : 1));
    const master = masters.find((each) => each.name >= name);
    if (!master) return masters.length === 0 ? undefined : ['0', []];
    const from = master.name === name ? at : '0';
    const found = await this.#guard(master, () =>
      this.#inTime(this.#clientOf(master).scan(from, 'MATCH', pattern, 'COUNT', count)),
    );
    if (!found) return undefined;
    if (found[0] !== '0') return [`${master.name} ${found[0]}`, found[1]];
    const next = masters[masters.indexOf(master) + 1];
    return [next ? `${next.name} 0` : '0', found[1]];
  }

  /** Leaves one for each master, and looks at each: see marks.ts. */
  async mark(key: string, expected: string | null, value: string): Promise<boolean | undefined> {
    const marking = this.#marks.next(key, this.#masters.ends(), this.#cluster.slots);
    if (marking.marks.length === 0) return undefined;
    const found = await this.#send(marking.marks.map((mark) => [mark.key, 'getset', mark.key, value]));
    return (
      found &&
      this.#marks.left(
        marking,
        found.map((before) => before !== null && before === expected),
      )
    );
  }

  close(): void {
    this.#unknown.close();
    this.#masters.close();
    this.#cluster.disconnect();
  }

  get #isReady(): boolean {
    return this.#cluster.status === 'ready';
  }

  #clientOf(master: Master) {
    const client = this.#masters.clientOf(master);
    if (!client) throw new Error('not connected to Redis');
    return client;
  }

  /** Does what is to be done for keys at each of their masters at once; what comes of it, undefined where nothing. */
  #eachMaster(
    keys: readonly string[],
    work: (master: Master, places: number[]) => Promise<void>,
  ): Promise<boolean[]> {
    const byMaster = new Map<Master | undefined, number[]>();
    keys.forEach((key, place) => {
      const master = this.#masters.of(slotOf(key));
      const places = byMaster.get(master);
      if (places) places.push(place);
      else byMaster.set(master, [place]);
    });
    return Promise.all(
      [...byMaster].map(async ([master, places]) => {
        if (!master) {
          if (this.#masters.all.length === 0) this.#unknown.failed(this.#lastError);
          return false;
        }
        const done = await this.#guard(master, async () => {
          await work(master, places);
          return true;
        });
        return done ?? false;
      }),
    );
  }

  /** Sends commands, all those for one node at once. Their answers; undefined when not all were done. */
  async #send(commands: Command[]): Promise<unknown[] | undefined> {
    const answers: unknown[] = [];
    for (let start = 0; start < commands.length; start += COMMANDS_AT_ONCE) {
      const part = commands.slice(start, start + COMMANDS_AT_ONCE);
      const done = await this.#eachMaster(
        part.map(([key]) => key),
        (master, places) =>
          this.#inTime(
            this.#sendTo(
              master,
              places.map((i) => part[i]!),
              (i, answer) => {
                answers[start + places[i]!] = answer;
              },
            ),
          ),
      );
      if (done.includes(false)) return undefined;
    }
    return answers;
  }

  async #sendTo(
    master: Master,
    commands: Command[],
    answered: (i: number, answer: unknown) => void,
  ): Promise<void> {
    const pipeline = this.#clientOf(master).pipeline(commands.map(([, name, ...args]) => [name, ...args]));
    const answers = (await pipeline.exec()) ?? [];
    await Promise.all(
      answers.map(async ([error, answer], i) => {
        answered(i, error ? await this.#sendAgain(commands[i]!, error) : answer);
      }),
    );
  }

  /** Sends by itself what a node did not do because another is to do it, or because it did not know the script yet. */
  async #sendAgain([, name, ...args]: Command, error: Error): Promise<unknown> {
    if (error.message.startsWith('NOSCRIPT'))
      return this.#cluster.call('eval', STORE_NEWER, ...args.slice(1));
    if (!/^(MOVED|ASK|TRYAGAIN) /.test(error.message)) throw error;
    try {
      return await this.#cluster.call(name, ...args);
    } catch (again) {
      if ((again as Error).message.startsWith('NOSCRIPT'))
        return this.#cluster.call('eval', STORE_NEWER, ...args.slice(1));
      throw again;
    }
  }

  /** A key whose slot is on its way: null where it is not found in time. */
  async #readElsewhere(key: string): Promise<Buffer | null> {
    try {
      const [value] = await withDeadline(this.#cluster.mgetBuffer(key), this.#timeoutMs);
      return value ?? null;
    } catch {
      return null;
    }
  }

  /** See Redis. */
  #inTime<T>(command: Promise<T>): Promise<T> {
    return withDeadline(command, 2 * this.#timeoutMs);
  }

  async #guard<T>({ breaker }: Master, command: () => Promise<T>): Promise<T | undefined> {
    if (breaker.open) return undefined;
    const startedAtMs = performance.now();
    let succeeded = false;
    try {
      const result = await command();
      breaker.succeeded();
      succeeded = true;
      return result;
    } catch (error) {
      if (isAway(error as Error)) breaker.failed((error as Error).message);
      return undefined;
    } finally {
      this.#onCall((performance.now() - startedAtMs) / 1000, succeeded);
    }
  }
}

function accessBy({ protocol, username, password }: URL): Access {
  return {
    ...(username && { username: decodeURIComponent(username) }),
    ...(password && { password: decodeURIComponent(password) }),
    ...(protocol === 'rediss:' && { tls: {} }),
  };
}
