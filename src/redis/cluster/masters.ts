import { checkServerIdentity, type PeerCertificate } from 'node:tls';
import { type Redis as Client, Cluster } from 'ioredis';
import type { OnCall } from '../../lib/circuit-breaker.ts';
import { type Address, type Credentials, Redis } from '../client.ts';
import { boundReplies } from '../reply-bound.ts';
import { clientOptions, type Login, loginOf, retryAfterMs } from '../store.ts';
import { JointBreaker } from './joint-breaker.ts';
import { checkSlotMaps, MAX_NODES, SLOTS } from './slot-map.ts';

/** Interval of refreshes of the slot map. Commands detect most changes earlier. */
const REFRESH_SLOTS_MS = 5_000;
/** Name of the first node of the address, which counts as the master of all slots until the slot map is known. */
const FIRST = 'the cluster';

/**
 * Holds the masters of a cluster, each with connections and a circuit breaker of its own. While one is unavailable, the others are
 * used. ioredis keeps the slot map.
 */
export class Masters {
  readonly #cluster: Cluster;
  readonly #credentials: Credentials;
  readonly #timeoutMs: number;
  readonly #onCall: OnCall;
  readonly #joint: JointBreaker;
  /** by host:port, as ioredis names them in its slot map */
  readonly #byName = new Map<string, Redis>();
  /** of the last slot map; undefined for a slot without a master */
  #bySlot: (Redis | undefined)[] = new Array(SLOTS);
  #closed = false;

  constructor(
    urls: string[],
    timeoutMs: number,
    onBreaker: (open: boolean, reason: string) => void,
    onCall: OnCall,
  ) {
    this.#timeoutMs = timeoutMs;
    this.#onCall = onCall;
    const parsed = urls.map((url) => new URL(url));
    this.#credentials = credentialsOf(parsed);
    this.#joint = new JointBreaker(onBreaker);
    const addresses = parsed.map(({ host }) => addressOf(host));
    this.#bySlot.fill(this.#open(FIRST, addresses[0]!));
    this.#cluster = connect(addresses, this.#credentials, timeoutMs);
    this.#cluster.on('refresh', () => this.#follow());
    // without a listener each failed connection would be printed; the breakers report instead
    this.#cluster.on('error', () => {});
    // ioredis makes later clients of nodes from a copy of its first options
    this.#cluster.on('+node', (client: Client) => {
      Object.assign(client.options, this.#credentials);
      boundReplies(client);
    });
  }

  /** Returns true if the slot map is known and every master is connected. */
  get ready(): boolean {
    const masters = [...this.#byName.values()];
    return this.#cluster.status === 'ready' && masters.every(({ ready }) => ready);
  }

  /** Returns the masters that have these slots, each with the indexes of its slots. Those without a master are left out. */
  of(slots: Iterable<number>): Map<Redis, number[]> {
    const byMaster = new Map<Redis, number[]>();
    let i = 0;
    for (const slot of slots) {
      const master = this.#bySlot[slot];
      const known = master && byMaster.get(master);
      if (known) known.push(i);
      else if (master) byMaster.set(master, [i]);
      i++;
    }
    return byMaster;
  }

  useLogin(login: Login): void {
    Object.assign(this.#credentials, login);
    for (const master of this.#byName.values()) master.useLogin(login);
    for (const { options } of this.#cluster.nodes('all')) Object.assign(options, login);
  }

  close(): void {
    this.#closed = true;
    this.#bySlot = [];
    for (const name of this.#byName.keys()) this.#drop(name);
    this.#cluster.disconnect();
  }

  /** Refreshes the slot map; ioredis does so periodically, and once at a time. */
  readonly #refresh = (): void => {
    if (this.#cluster.status === 'ready') this.#cluster.refreshSlotsCache(() => {});
  };

  /** Applies a refreshed slot map. */
  #follow(): void {
    const { slots } = this.#cluster;
    if (this.#closed || slots.length === 0) return;
    const named = new Set<string>();
    this.#bySlot = [];
    for (let slot = 0; slot < slots.length; slot++) {
      const name = slots[slot]?.[0];
      // the slots of a range share one list
      const isNamed = name !== undefined && slots[slot] !== slots[slot - 1];
      // ioredis keeps the slots of earlier maps that a later one does not have
      if (isNamed && (named.has(name) || named.size < MAX_NODES)) {
        named.add(name);
        if (!this.#byName.has(name)) this.#open(name, addressOf(name));
      }
      this.#bySlot.push(this.#byName.get(name ?? ''));
    }
    for (const name of this.#byName.keys()) if (!named.has(name)) this.#drop(name);
  }

  #open(name: string, address: Address): Redis {
    const onBreaker = (open: boolean, reason: string) => this.#joint.changed(name, open, reason);
    const server = { ...address, ...this.#credentials };
    const master = new Redis(server, this.#timeoutMs, onBreaker, this.#onCall, this.#refresh);
    this.#byName.set(name, master);
    return master;
  }

  #drop(name: string): void {
    this.#byName.get(name)!.close();
    this.#byName.delete(name);
    this.#joint.changed(name, false, 'the slot map does not name it');
  }
}

function connect(addresses: Address[], credentials: Credentials, timeoutMs: number): Cluster {
  checkSlotMaps();
  const { retryStrategy: _, enableOfflineQueue: __, ...redisOptions } = clientOptions(timeoutMs);
  return new Cluster(addresses, {
    redisOptions: { ...redisOptions, ...credentials },
    // ioredis would resolve each name and check the certificate against the IP address
    dnsLookup: (host, found) => found(null, host),
    clusterRetryStrategy: retryAfterMs,
    // its connections serve for the slot map alone
    enableReadyCheck: false,
    slotsRefreshTimeout: Math.max(timeoutMs, 250),
    slotsRefreshInterval: REFRESH_SLOTS_MS,
  });
}

/** Returns the address of a node by its name in the slot map, or by the host of a URL, whose port is optional. */
function addressOf(name: string): Address {
  const [, host, port] = /^\[?(.*?)\]?(?::(\d+))?$/.exec(name)!;
  return { host: host!, port: Number(port ?? 6379) };
}

function credentialsOf(addresses: URL[]): Credentials {
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
