import slotOf from 'cluster-key-slot';
import { Server } from './network.ts';
import type { Random } from './random.ts';
import type { World } from './world.ts';

/** A reply before it is written. */
export type Reply = Buffer | string | number | null | Error | Reply[];

interface Stored {
  value: Buffer;
  untilMs: number;
}

const SLOTS = 16_384;

/** A Redis server: it may lose, keep back, revive and evict anything. */
export class RedisServer extends Server {
  values = new Map<string, Stored>();
  /** share of writes that are answered and lost */
  losesWrites = 0;
  /** share of writes that take effect much later, although they are answered */
  delaysWrites = 0;
  /** a replica: it rejects writes */
  rejectsWrites = false;
  readonly #servers: RedisServers;
  readonly #world: World;
  readonly #random: Random;

  constructor(servers: RedisServers, world: World, name: string) {
    super(name);
    this.#servers = servers;
    this.#world = world;
    this.#random = world.randomOf(`redis ${name}`);
  }

  get delayMs(): number {
    return this.#random.between(0.02, 0.2) + this.#random.between(0, this.slowMs);
  }

  /** Executes a command, given by its words. */
  execute([name, ...words]: readonly Buffer[]): Reply {
    const command = String(name).toLowerCase();
    if (command === 'cluster') return this.#servers.slotMap;
    const ofScript = () => words.slice(2, 2 + Number(words[1]));
    const keys = command === 'eval' ? ofScript() : command === 'mget' ? words : words.slice(0, 1);
    const moved = this.#movedOf(keys);
    if (moved) return moved;
    if (this.rejectsWrites && command !== 'mget')
      return replyError("READONLY You can't write against a read only replica.");
    if (command === 'mget') return words.map((key) => this.#get(String(key)) ?? null);
    if (command === 'eval') return this.#setEach(keys, words);
    if (command === 'set') {
      const [key, value, , ttlMs] = words;
      this.#set(String(key), value!, Number(ttlMs));
      return 'OK';
    }
    return replyError(`ERR unknown command '${command}'`);
  }

  /** `SET_EACH` of src/redis/store.ts. Limits are counted by each instance here. */
  #setEach(keys: readonly Buffer[], words: readonly Buffer[]): Reply {
    for (const [i, key] of keys.entries()) {
      const at = 2 + keys.length + 2 * i;
      this.#set(String(key), words[at]!, Number(words[at + 1]));
    }
    return null;
  }

  #movedOf(keys: readonly Buffer[]): Error | undefined {
    const { owners } = this.#servers;
    if (!owners) return undefined;
    for (const key of keys) {
      const slot = slotOf(key);
      const owner = owners[slot]!;
      if (owner !== this) return replyError(`MOVED ${slot} ${owner.name}:6379`);
    }
    return undefined;
  }

  #get(key: string): Buffer | undefined {
    const stored = this.values.get(key);
    return stored && stored.untilMs > this.#world.nowMs ? stored.value : undefined;
  }

  #set(key: string, value: Buffer, ttlMs: number): void {
    if (this.#random.chance(this.losesWrites)) return;
    const write = () => this.values.set(key, { value, untilMs: this.#world.nowMs + ttlMs });
    if (this.#random.chance(this.delaysWrites)) this.#world.after(this.#random.between(10, 20_000), write);
    else write();
  }

  /** Removes a share of the values. */
  evict(share: number): void {
    for (const key of this.values.keys()) if (this.#random.chance(share)) this.values.delete(key);
  }

  copy(): Map<string, Stored> {
    return new Map(this.values);
  }

  /** Puts values back, over the present ones or in their place. */
  putBack(values: ReadonlyMap<string, Stored>, isWhole: boolean): void {
    if (isWhole) this.values = new Map(values);
    else for (const [key, stored] of values) this.values.set(key, stored);
  }
}

/** The Redis servers: nodes of one cluster, or each for itself, and which of them an instance reaches. */
export class RedisServers {
  readonly servers: RedisServer[];
  /** a cluster: the node of each slot */
  readonly owners: RedisServer[] | undefined;
  readonly #byHost = new Map<string, RedisServer>();
  #slotMap: Reply | undefined;

  constructor(world: World, count: number, isCluster: boolean) {
    this.servers = Array.from({ length: count }, (_, i) => new RedisServer(this, world, `redis${i}`));
    const ownerOf = (slot: number) => this.servers[Math.floor((slot * count) / SLOTS)]!;
    if (isCluster) this.owners = Array.from({ length: SLOTS }, (_, slot) => ownerOf(slot));
  }

  /** REDIS_URL of the instances. */
  get url(): string {
    return this.owners ? this.servers.map(({ name }) => `redis://${name}`).join() : 'redis://redis';
  }

  /** Returns the server that a name leads to from a machine. */
  resolve(name: string, host: string): RedisServer {
    return this.servers.find((server) => server.name === name) ?? this.#byHost.get(host) ?? this.servers[0]!;
  }

  lead(host: string, server: RedisServer): void {
    this.#byHost.set(host, server);
  }

  /** A cluster: the reply to CLUSTER SLOTS. */
  get slotMap(): Reply {
    this.#slotMap ??= this.owners!.flatMap((owner, from) => {
      if (owner === this.owners![from - 1]) return [];
      const behind = this.owners!.findIndex((other, slot) => slot > from && other !== owner);
      return [[from, (behind < 0 ? SLOTS : behind) - 1, [owner.name, 6379]]];
    });
    return this.#slotMap;
  }

  /** Gives slots of a node to another one, with the values that it has of them. */
  move(from: RedisServer, to: RedisServer, share: number): void {
    const { owners } = this;
    const moved = owners!.flatMap((owner, slot) => (owner === from ? [slot] : []));
    this.#slotMap = undefined;
    for (const slot of moved.slice(0, share * moved.length)) owners![slot] = to;
    for (const [key, stored] of from.values) if (owners![slotOf(key)] === to) to.values.set(key, stored);
  }
}

function replyError(message: string): Error {
  return Object.assign(new Error(message), { name: 'ReplyError' });
}

/** Returns the commands in what a client has sent. */
export function commandsOf(sent: Buffer): Buffer[][] {
  const commands: Buffer[][] = [];
  let at = 0;
  const number = () => {
    const end = sent.indexOf('\r\n', at);
    const value = Number(sent.toString('latin1', at + 1, end));
    at = end + 2;
    return value;
  };
  while (at < sent.length) {
    const words: Buffer[] = [];
    for (let left = number(); left > 0; left--) {
      const length = number();
      words.push(sent.subarray(at, at + length));
      at += length + 2;
    }
    commands.push(words);
  }
  return commands;
}

/** Returns a reply as a server writes it. */
export function written(reply: Reply): Buffer {
  if (reply === null) return Buffer.from('$-1\r\n');
  if (Buffer.isBuffer(reply))
    return Buffer.concat([Buffer.from(`$${reply.length}\r\n`), reply, Buffer.from('\r\n')]);
  if (Array.isArray(reply))
    return Buffer.concat([Buffer.from(`*${reply.length}\r\n`), ...reply.map((each) => written(each))]);
  if (reply instanceof Error) return Buffer.from(`-${reply.message}\r\n`);
  return Buffer.from(typeof reply === 'number' ? `:${reply}\r\n` : `+${reply}\r\n`);
}
