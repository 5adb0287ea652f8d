import { hashOf } from '../../src/auth/key.ts';
import { Checker } from './checker.ts';
import { Clients } from './clients.ts';
import { Instance } from './instance.ts';
import { Network } from './network.ts';
import { type Folder, PgCluster } from './postgres.ts';
import { setPresent } from './present.ts';
import { Random } from './random.ts';
import { Reach } from './reach.ts';
import { type RedisServer, RedisServers } from './redis.ts';
import { DAY_MS, type Data, type Sizes } from './sequencer.ts';
import { type Busy, drawBusy, drawSteps, type Step, take } from './steps.ts';
import { Truth } from './truth.ts';
import { World } from './world.ts';
import {
  beginWrites,
  COLLECTIONS,
  hotelOf,
  keyNumber,
  limitOf,
  type Names,
  newKey,
  setCollection,
  setMember,
} from './writes.ts';

const NOON_MS = Date.parse('2026-03-01T12:00:00Z');

/** Factor of the pauses of clients in quiet times. */
const QUIET_PACE = 25;

export interface EpisodeOptions {
  seed: string;
  untilMs: number;
  isTraced?: boolean;
  /** undefined: as the seed draws them */
  steps?: Step[] | undefined;
}

/** One run of a world: everything in it is decided by its seed, and by its steps. */
export class Episode {
  readonly world: World;
  readonly network: Network;
  readonly postgres: PgCluster;
  readonly redis: RedisServers;
  readonly instances: Instance[] = [];
  readonly truth: Truth;
  readonly reach: Reach;
  readonly checker: Checker;
  readonly names: Names;
  readonly steps: Step[];
  readonly folders: { atMs: number; folder: Folder }[] = [];
  readonly dumps: ReturnType<RedisServer['copy']>[] = [];
  /** no other system writes until then */
  silentUntilMs = 0;
  /** mirrors begin anew that began before */
  mirrorsBeginMs = -Infinity;
  clients: Clients | undefined;
  /** an instance of another deployment */
  stranger: Instance | undefined;
  readonly #untilMs: number;
  readonly #busy: Busy;

  constructor({ seed, untilMs, isTraced = false, steps }: EpisodeOptions) {
    const random = new Random(`${seed} episode`);
    this.#untilMs = untilMs;
    beginWrites();
    const toMidnightMs = random.chance(0.3) ? random.between(5_000, 50_000) : 6 * 3_600_000;
    const beganWallMs = Math.floor(NOON_MS / DAY_MS + 1) * DAY_MS - toMidnightMs;
    const world = new World(seed, beganWallMs, isTraced);
    this.world = world;
    this.network = new Network(world);
    this.names = { hotels: random.pick([8, 8, 20, 40]), keys: 6 };
    const sizes: Sizes = random.chance(0.6)
      ? { maxPiece: 5, maxRow: 4, maxKeys: 6, maxScanned: 7, maxDeleted: 30, minAgeMs: 4e3, maxIds: 40 }
      : {
          maxPiece: 2e4,
          maxRow: 1e3,
          maxKeys: 1e5,
          maxScanned: 5e4,
          maxDeleted: 300,
          minAgeMs: 6e5,
          maxIds: 1e6,
        };
    const hotels = [...Array(this.names.hotels).keys()]
      .filter(() => random.chance(0.8))
      .map((n) => hotelOf(`h${n}`, n));
    const keys = Array.from({ length: this.names.keys }, (_, n) => ({
      ...newKey(random, hashOf(keyNumber(n)), n === 0 ? null : n === 1 ? COLLECTIONS[0]! : undefined),
      limit: limitOf(n, seed),
    }));
    this.postgres = new PgCluster(world, this.network, sizes, hotels, keys);
    const isCluster = random.chance(0.25);
    this.redis = new RedisServers(world, isCluster ? 3 : random.chance(0.5) ? 1 : 2, isCluster);
    this.reach = new Reach(world, this.network, this.postgres);
    this.truth = new Truth(this.postgres.primary.folder.data);
    this.checker = new Checker(world, this.truth, this.reach);
    this.postgres.onReach = () => this.reached();
    this.network.onSwallowed = (host) => this.disturb(1_000, [host]);
    this.postgres.onTruth = (data, before) => {
      this.truth.changed(world.nowMs, data, before);
      if (world.lines) world.trace(`TRUTH ${describe(data, before)}`);
    };
    for (const collection of COLLECTIONS) {
      const members = hotels.filter(() => random.chance(0.5)).map(({ id }) => id);
      const filled = members.length > 0 ? [setMember(collection, members, true)] : [];
      this.postgres.write([setCollection(collection, true), ...filled], 0);
    }
    const hasReplica = random.chance(0.5);
    if (hasReplica) this.postgres.addReplica();
    const options = {
      workers: random.whole(1, 2),
      redisUrl: random.chance(0.75) ? this.redis.url : '',
      hasReplica,
      localBytes: random.chance(0.8) ? 1024 * 1024 : 0,
      poolSize: this.postgres.lateShare > 0.01 ? 8 : random.pick([2, 8]),
      warmUpMs: random.chance(0.5) ? 2_000 : 0,
    };
    const count = random.whole(1, 3);
    for (let i = 0; i < count; i++) {
      this.instances.push(new Instance(world, `i${i}`, options));
      if (!isCluster && this.redis.servers[1] && random.chance(0.5))
        this.redis.lead(`i${i}`, this.redis.servers[1]);
    }
    this.#busy = drawBusy(new Random(`${seed} busy`), untilMs);
    this.steps = steps ?? drawSteps(random, this.#busy, untilMs);
  }

  get hostNames(): string[] {
    return this.instances.map(({ name }) => name);
  }

  /** Factor of the pauses between whatever is repeated: much more in quiet times. */
  get pace(): number {
    const { nowMs } = this.world;
    return this.#busy.some(({ fromMs, untilMs }) => fromMs <= nowMs && nowMs < untilMs) ? 1 : QUIET_PACE;
  }

  /** To be called after whatever may have changed which instances reach PostgreSQL. */
  reached(): void {
    this.reach.update(this.hostNames);
  }

  /** The database has gone back: the documents allow 5 s, of which the checker adds two. */
  wentBack(): void {
    this.reached();
    this.disturb(3_000);
  }

  disturb(forMs: number, hosts = this.hostNames): void {
    this.reach.disturb(hosts, forMs);
  }

  async run(onProgress?: () => void): Promise<void> {
    const { world, network, postgres, redis } = this;
    setPresent({ world, network, postgres, redis, onServer: () => {} });
    for (const instance of this.instances) world.after(0, () => instance.start());
    for (const step of this.steps) world.at(step.atMs, () => take(this, step));
    this.clients = new Clients(this);
    this.clients.start(this.#untilMs);
    await world.run(this.#untilMs, onProgress);
    for (const { atMs, kind, text } of this.checker.violations)
      world.trace(`VIOLATION of ${atMs.toFixed(0)} ${kind}: ${text}`);
    setPresent(undefined);
  }
}

/** Describes a commit, for a trace that is read. */
function describe(data: Data, before: Data | undefined): string {
  const parts: string[] = [];
  for (const row of data.log)
    if (!before?.log.includes(row))
      parts.push(`log ${row.position}/${row.transaction} ${row.kind} ${row.ids ?? ''}`);
  for (const row of data.queue)
    if (!before?.queue.includes(row))
      parts.push(`queue ${row.transaction} ${row.kind} ${row.collection ?? ''} ${row.ids}`);
  for (const [id, row] of data.hotels) {
    const was = before?.hotels.get(id);
    if (was !== row) parts.push(`${id} ${was?.name} -> ${row.name}/${row.channel_id}/${row.registry_id}`);
  }
  for (const id of before?.hotels.keys() ?? []) if (!data.hotels.has(id)) parts.push(`${id} gone`);
  return parts.join('; ');
}
