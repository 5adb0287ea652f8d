import { Redis as Client, type Cluster } from 'ioredis';
import { CircuitBreaker } from '../../lib/circuit-breaker.ts';
import type { BreakerCall } from '../breaker-call.ts';
import { MgetConnection } from '../mget.ts';
import { boundReplies } from '../reply-bound.ts';
import { clientOptions, type Login } from '../store.ts';
import { ViewConnector } from '../view-connector.ts';
import { JointBreaker } from './joint-breaker.ts';

/** Credentials of every node: a cluster has one user and one kind of connection. */
export interface ClusterCredentials extends Login {
  tls?: object;
}

/** A node that has slots. */
export interface Master {
  /** host:port, as ioredis names it in its slot map */
  readonly name: string;
  /** connection for reading */
  readonly client: Client;
  readonly mget: MgetConnection;
  readonly breaker: CircuitBreaker;
}

/**
 * Holds the masters of a cluster according to ioredis' slot map, each with a connection for reading and a circuit
 * breaker of its own. While one is unavailable, the others are used.
 */
export class Masters {
  readonly #cluster: Cluster;
  readonly #credentials: ClusterCredentials;
  readonly #timeoutMs: number;
  readonly #call: BreakerCall;
  readonly #joint: JointBreaker;
  readonly #byName = new Map<string, Master>();
  /** of the last slot map; undefined for a slot without a master */
  #bySlot: (Master | undefined)[] = [];
  /** breaker for the time without a known master */
  readonly #unknown: CircuitBreaker;
  #lastError = 'no node of the cluster has answered yet';
  #closed = false;

  /** `onBreaker` is called when the first breaker opens and when the last one closes. */
  constructor(
    cluster: Cluster,
    credentials: ClusterCredentials,
    timeoutMs: number,
    call: BreakerCall,
    onBreaker: (open: boolean, reason: string) => void,
  ) {
    this.#cluster = cluster;
    this.#credentials = credentials;
    this.#timeoutMs = timeoutMs;
    this.#call = call;
    this.#joint = new JointBreaker(onBreaker);
    this.#unknown = this.#breakerOf('the cluster', async () => {
      if (this.#byName.size === 0) throw new Error(this.#lastError);
    });
    cluster.on('refresh', () => this.#follow());
    // without a listener each failed connection would be printed; the breakers report instead
    cluster.on('error', () => {});
    // ioredis makes later clients of nodes from a copy of its first options
    cluster.on('+node', (client: Client) => {
      Object.assign(client.options, this.#credentials);
      boundReplies(client);
    });
    // a lost node may have a successor
    cluster.on('-node', () => this.refresh());
  }

  get all(): Master[] {
    return [...this.#byName.values()];
  }

  /** Returns true if the slot map is known and every master can be read. */
  get ready(): boolean {
    return (
      this.#cluster.status === 'ready' && this.#byName.size > 0 && this.all.every(({ mget }) => mget.ready)
    );
  }

  /**
   * Runs an action for keys, given by their slots, at each of their masters concurrently. Returns for each whether it
   * succeeded; keys without a known master count as one more failure.
   */
  each(
    slots: Iterable<number>,
    work: (master: Master, places: number[]) => Promise<void>,
  ): Promise<boolean[]> {
    return Promise.all(
      [...this.#grouped(slots)].map(async ([master, places]) => {
        if (!master) {
          if (this.#byName.size === 0) this.#unknown.failed(this.#lastError);
          return false;
        }
        const done = await this.#call.call(master.breaker, async () => {
          await work(master, places);
          return true;
        });
        return done ?? false;
      }),
    );
  }

  /** Returns the connection for commands other than reads. Throws while there is none. */
  clientOf({ name }: Master): Client {
    const client = this.#cluster
      .nodes('all')
      .find(({ options }) => `${options.host}:${options.port}` === name);
    if (!client) throw new Error('not connected to Redis');
    return client;
  }

  /** Records for the log why a node cannot be reached. */
  connectionFailed({ message }: Error): void {
    this.#lastError = message;
  }

  useLogin(login: Login): void {
    Object.assign(this.#credentials, login);
    const clients = [...this.all.map(({ client }) => client), ...this.#cluster.nodes('all')];
    for (const { options } of clients) Object.assign(options, login);
  }

  /** Refreshes the slot map; ioredis does so periodically and after redirections. */
  refresh(): void {
    if (this.#cluster.status === 'ready') this.#cluster.refreshSlotsCache(() => {});
  }

  close(): void {
    this.#closed = true;
    this.#unknown.close();
    this.#bySlot = [];
    for (const master of this.all) this.#drop(master);
  }

  /** Returns the indexes of the keys of each master; undefined: those without a known master. */
  #grouped(slots: Iterable<number>): Map<Master | undefined, number[]> {
    const places = new Map<Master | undefined, number[]>();
    let place = 0;
    for (const slot of slots) {
      const master = this.#bySlot[slot];
      const known = places.get(master);
      if (known) known.push(place);
      else places.set(master, [place]);
      place++;
    }
    return places;
  }

  /** Applies a refreshed slot map. */
  #follow(): void {
    if (this.#closed) return;
    const { slots } = this.#cluster;
    const named = new Set<string>();
    this.#bySlot = [];
    for (let slot = 0; slot < slots.length; slot++) {
      // the slots of a range share one list
      if (slot > 0 && slots[slot] === slots[slot - 1]) {
        this.#bySlot.push(this.#bySlot[slot - 1]);
        continue;
      }
      const name = slots[slot]?.[0];
      if (name !== undefined && !this.#byName.has(name)) this.#open(name);
      if (name !== undefined) named.add(name);
      this.#bySlot.push(this.#byName.get(name ?? ''));
    }
    for (const master of this.all) if (!named.has(master.name)) this.#drop(master);
  }

  #open(name: string): void {
    const colon = name.lastIndexOf(':');
    const connector = this.#credentials.tls ? {} : { Connector: ViewConnector };
    const client = new Client({
      ...clientOptions(this.#timeoutMs),
      ...this.#credentials,
      ...connector,
      host: name.slice(0, colon),
      port: Number(name.slice(colon + 1)),
    });
    boundReplies(client);
    const mget = new MgetConnection(client, this.#timeoutMs);
    const breaker = this.#breakerOf(name, async () => {
      // a replica may have its slots now
      this.refresh();
      await mget.probe();
    });
    this.#byName.set(name, { name, client, mget, breaker });
  }

  #breakerOf(name: string, probe: () => Promise<void>): CircuitBreaker {
    return new CircuitBreaker({
      probe,
      failuresToOpen: 3,
      probeEveryMs: 200,
      onChange: (open, reason) => this.#joint.changed(name, open, reason),
    });
  }

  #drop({ name, mget, breaker }: Master): void {
    this.#byName.delete(name);
    breaker.close();
    mget.close();
    this.#joint.changed(name, false, 'it has no slots any more');
  }
}
