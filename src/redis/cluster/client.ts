import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import slotOf from 'cluster-key-slot';
import type { RedisOptions } from 'ioredis';
import type { OnCall } from '../../lib/circuit-breaker.ts';
import { clearTimer, monotonicMs, random, setTimer, type Timer } from '../../lib/clock.ts';
import { Redis } from '../client.ts';
import type { ValuesReader } from '../reply-parser.ts';
import {
  type Login,
  loginOf,
  type RedisStore,
  reconnectAfterMs,
  type TimedValue,
  type WindowCount,
  type WindowUse,
} from '../store.ts';
import { MgetKeys } from './mget-keys.ts';
import { MAX_MASTERS, mastersBySlot } from './slot-map.ts';

/** Interval of refreshes of the slot map. Commands detect most changes earlier. */
const REFRESH_SLOTS_MS = 5_000;
/** Minimum interval of refreshes that commands cause. */
const REFRESH_AT_MOST_EVERY_MS = 100;
/** Name of the slot map among the circuit breakers: without it no master is known. */
const SLOT_MAP = 'the slot map';
/** Number of refreshes that fail in a row before it is reported: half a second, in which a connection is made. */
const FAILURES_TO_REPORT = 5;

/**
 * Client of a Redis Cluster: holds its masters, each with connections and a circuit breaker of its own, and follows the slot map. It
 * requests that from any master, and after a failure from the nodes of `REDIS_URL` too. Keys have no hash tags, so a batch spreads over all
 * masters. Commands go to each at once, in one round trip, and an unavailable one affects its own keys only. A key whose slot is
 * moving is a miss.
 */
export class RedisCluster implements RedisStore {
  /** names of the nodes of `REDIS_URL` */
  readonly #seeds: string[];
  /** user, password and TLS of every node */
  readonly #credentials: RedisOptions;
  readonly #timeoutMs: number;
  readonly #onCall: OnCall;
  readonly #onBreaker: (open: boolean, reason: string) => void;
  /** names of the masters whose circuit breaker is open, and perhaps `SLOT_MAP` */
  readonly #failing = new Set<string>();
  /** by host:port */
  readonly #byName = new Map<string, Redis>();
  /** of the last slot map, empty before the first; undefined for a slot without a master */
  #bySlot: (Redis | undefined)[] = [];
  #closed = false;
  #isRefreshing = false;
  #refreshedAtMs = -Infinity;
  #failedRefreshes = 0;
  #nextRefresh: Timer | undefined;
  /** masters that were opened since a time: a server may name others at each refresh */
  #opened = { count: 0, sinceMs: -Infinity };

  /**
   * Connects to the cluster of which `urls` are some nodes; user, password and TLS are those of the first.
   * `onBreaker` is called when the first node's breaker opens and when the last one closes.
   */
  constructor(
    urls: string[],
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall = () => {},
  ) {
    this.#timeoutMs = timeoutMs;
    this.#onCall = onCall;
    const parsed = urls.map((url) => new URL(url));
    this.#credentials = credentialsOf(parsed);
    this.#onBreaker = onBreaker;
    this.#seeds = parsed.map(({ host, port }) => (port === '' ? `${host}:6379` : host));
    void this.#refresh();
  }

  /** Returns true if the slot map is known and every master is connected. */
  get ready(): boolean {
    return this.#bySlot.length > 0 && [...this.#byName.values()].every(({ ready }) => ready);
  }

  async read(key: string): Promise<Buffer | null | undefined> {
    return this.#bySlot[slotOf(key)]?.read(key);
  }

  async sendMget(
    command: Buffer,
    keys: number,
    reader: ValuesReader,
    onSent?: () => void,
  ): Promise<true | undefined> {
    const keysOfCommand = new MgetKeys(command, keys);
    const parts = await this.#atMasters(keysOfCommand.slots, async (master, at) => ({
      values: await master.readEach(keysOfCommand.commandsOf(at), at.length),
      at,
    }));
    onSent?.();
    const read = parts.flatMap(({ values, at }) => (values ? [{ values, at }] : []));
    if (read.length === 0) return undefined;
    reader.use(read);
    reader.complete();
    return true;
  }

  async setMany(values: TimedValue[]): Promise<void> {
    const slots = values.map(([key]) => slotOf(key));
    await this.#atMasters(slots, (master, at) => master.setMany(at.map((i) => values[i]!)));
  }

  async countWindow(key: string, use: WindowUse): Promise<WindowCount | undefined> {
    return this.#bySlot[slotOf(key)]?.countWindow(key, use);
  }

  useLogin(login: Login): void {
    Object.assign(this.#credentials, login);
    for (const master of this.#byName.values()) master.useLogin(login);
  }

  close(): void {
    this.#closed = true;
    this.#bySlot = [];
    clearTimer(this.#nextRefresh);
    for (const name of this.#byName.keys()) this.#drop(name);
  }

  /** Does work at each master of these slots concurrently, with the indexes of its slots. Slots without a master are left out. */
  #atMasters<T>(slots: Iterable<number>, work: (master: Redis, at: number[]) => Promise<T>): Promise<T[]> {
    const byMaster = new Map<Redis, number[]>();
    let i = 0;
    for (const slot of slots) {
      const master = this.#bySlot[slot];
      const known = master && byMaster.get(master);
      if (known) known.push(i);
      else if (master) byMaster.set(master, [i]);
      i++;
    }
    return Promise.all(Array.from(byMaster, ([master, at]) => work(master, at)));
  }

  /** Refreshes the slot map, and again in time: soon if a node did not send it. */
  async #refresh(): Promise<void> {
    if (this.#isRefreshing || this.#closed) return;
    this.#isRefreshing = true;
    this.#refreshedAtMs = monotonicMs();
    clearTimer(this.#nextRefresh);
    if (this.#failedRefreshes > 0 || this.#byName.size === 0)
      for (const name of this.#seeds) if (!this.#byName.has(name)) this.#open(name);
    const read = await this.#readSlotMap().catch((error: Error) => error);
    this.#isRefreshing = false;
    if (this.#closed) return;
    let inMs = REFRESH_SLOTS_MS;
    if (read instanceof Error) {
      inMs = reconnectAfterMs(++this.#failedRefreshes);
      if (this.#failedRefreshes >= FAILURES_TO_REPORT) this.#reportBreaker(SLOT_MAP, true, read.message);
    } else {
      this.#failedRefreshes = 0;
      this.#use(read);
    }
    this.#nextRefresh = setTimer(() => void this.#refresh(), inMs);
  }

  /** Reads the master of each slot from one node, another one each time: what one says may be old. */
  async #readSlotMap(): Promise<(string | undefined)[]> {
    const nodes = [...this.#byName];
    const ready = nodes.filter(([, node]) => node.ready);
    // if none is ready, any of them says why
    const some = ready.length > 0 ? ready : nodes;
    const [name, node] = some[Math.floor(random() * some.length)]!;
    return mastersBySlot(await node.slotMap(), addressOf(name).host);
  }

  #use(bySlot: (string | undefined)[]): void {
    const nowMs = monotonicMs();
    if (nowMs - this.#opened.sinceMs >= REFRESH_SLOTS_MS) this.#opened = { count: 0, sinceMs: nowMs };
    const named = new Set(bySlot);
    for (const name of this.#byName.keys()) if (!named.has(name)) this.#drop(name);
    for (const name of named) {
      if (name === undefined || this.#byName.has(name) || this.#opened.count === MAX_MASTERS) continue;
      this.#opened.count++;
      this.#open(name);
    }
    this.#bySlot = bySlot.map((name) => this.#byName.get(name ?? ''));
    this.#reportBreaker(SLOT_MAP, false, 'a node sent it');
  }

  #open(name: string): void {
    const onBreaker = (open: boolean, reason: string) => this.#reportBreaker(name, open, reason);
    const onMoved = () => {
      if (monotonicMs() - this.#refreshedAtMs >= REFRESH_AT_MOST_EVERY_MS) void this.#refresh();
    };
    const server = { ...addressOf(name), ...this.#credentials };
    this.#byName.set(name, new Redis(server, this.#timeoutMs, onBreaker, this.#onCall, onMoved));
  }

  #drop(name: string): void {
    this.#byName.get(name)!.close();
    this.#byName.delete(name);
    this.#reportBreaker(name, false, 'the slot map does not name it');
  }

  /** Records the state of a breaker. All are reported as one: open with the first that opens, closed with the last that closes. */
  #reportBreaker(name: string, open: boolean, reason: string): void {
    const wasOpen = this.#failing.size > 0;
    if (open) this.#failing.add(name);
    else this.#failing.delete(name);
    if (wasOpen !== this.#failing.size > 0) this.#onBreaker(open, `${name}: ${reason}`);
  }
}

/** Returns the address of a node by its name in the slot map or in `REDIS_URL`. */
function addressOf(name: string): { host: string; port: number } {
  const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(name)!;
  return { host: host!, port: Number(port) };
}

function credentialsOf(addresses: URL[]): RedisOptions {
  const { protocol, href } = addresses[0]!;
  return {
    ...loginOf(href),
    ...(protocol === 'rediss:' && { tls: { checkServerIdentity: identityCheck(addresses) } }),
  };
}

/**
 * Accepts a certificate for the name of the node or for a host of `REDIS_URL`: managed clusters announce IP addresses
 * behind one certificate for the name of the cluster.
 */
function identityCheck(addresses: URL[]): typeof checkServerIdentity {
  const hosts = addresses.map(({ hostname }) => hostname);
  return (name: string, certificate: PeerCertificate) => {
    const fault = checkServerIdentity(name, certificate);
    const isKnown = () => hosts.some((host) => checkServerIdentity(host, certificate) === undefined);
    return fault && !isKnown() ? fault : undefined;
  };
}
