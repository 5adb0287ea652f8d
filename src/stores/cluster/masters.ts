import { Redis as Client, type Cluster } from 'ioredis';
import { Breaker } from '../breaker.ts';
import { MgetConnection } from '../mget.ts';
import { clientOptions, isAway } from '../shared-store.ts';
import { ViewConnector } from '../view-connector.ts';
import type { JointBreaker } from './joint-breaker.ts';

/** How every node is reached: a cluster has one user and one kind of connection. */
export interface Access {
  username?: string;
  password?: string;
  tls?: object;
}

/** A node that has slots. */
export interface Master {
  /** host:port, as ioredis names it in its slots */
  readonly name: string;
  readonly mget: MgetConnection;
  readonly breaker: Breaker;
}

/**
 * The masters of a cluster, as ioredis' map of the slots has them, each with a connection for reading and a breaker of
 * its own: while one is away the others go on answering.
 */
export class Masters {
  readonly #cluster: Cluster;
  readonly #access: Access;
  readonly #timeoutMs: number;
  readonly #joint: JointBreaker;
  readonly #byName = new Map<string, Master>();
  #closed = false;

  constructor(cluster: Cluster, access: Access, timeoutMs: number, joint: JointBreaker) {
    this.#cluster = cluster;
    this.#access = access;
    this.#timeoutMs = timeoutMs;
    this.#joint = joint;
    cluster.on('refresh', () => this.#follow());
  }

  get all(): Master[] {
    return [...this.#byName.values()];
  }

  /** Who has a slot; undefined: nobody as far as is known. */
  of(slot: number): Master | undefined {
    const name = this.#cluster.slots[slot]?.[0];
    if (name === undefined || this.#closed) return undefined;
    return this.#byName.get(name) ?? this.#open(name);
  }

  /** The connection for everything but reading; undefined while there is none. */
  clientOf({ name }: Master): Client | undefined {
    return this.#cluster.nodes('all').find(({ options }) => `${options.host}:${options.port}` === name);
  }

  /** Has the map of the slots read anew; ioredis does so now and then, and where it was sent elsewhere. */
  refresh(): void {
    if (this.#cluster.status === 'ready') this.#cluster.refreshSlotsCache(() => {});
  }

  /** By name, the lowest and the highest slot of each. */
  ends(): Map<string, [lowest: number, highest: number]> {
    const ends = new Map<string, [number, number]>();
    this.#cluster.slots.forEach((names, slot) => {
      if (names[0] === undefined) return;
      const known = ends.get(names[0]);
      if (known) known[1] = slot;
      else ends.set(names[0], [slot, slot]);
    });
    return ends;
  }

  close(): void {
    this.#closed = true;
    for (const master of this.all) this.#drop(master);
  }

  /** The map of the slots has been read. */
  #follow(): void {
    if (this.#closed) return;
    const named = this.ends();
    for (const name of named.keys()) if (!this.#byName.has(name)) this.#open(name);
    for (const master of this.all) if (!named.has(master.name)) this.#drop(master);
  }

  #open(name: string): Master {
    const colon = name.lastIndexOf(':');
    const connector = this.#access.tls ? {} : { Connector: ViewConnector };
    const client = new Client({
      ...clientOptions(this.#timeoutMs),
      ...this.#access,
      ...connector,
      host: name.slice(0, colon),
      port: Number(name.slice(colon + 1)),
    });
    const mget = new MgetConnection(client, this.#timeoutMs);
    const breaker = new Breaker({
      probe: async () => {
        // a replica may have its slots now
        this.refresh();
        const { refusals } = await mget.readEach(['probe']);
        // that the key is another's is as good an answer
        for (const [, error] of refusals) if (isAway(error)) throw error;
      },
      failuresToOpen: 3,
      probeEveryMs: 200,
      onChange: (open, reason) => this.#joint.changed(name, open, reason),
    });
    const master = { name, mget, breaker };
    this.#byName.set(name, master);
    return master;
  }

  #drop({ name, mget, breaker }: Master): void {
    this.#byName.delete(name);
    breaker.close();
    mget.close();
    this.#joint.changed(name, false, 'it has no slots any more');
  }
}
