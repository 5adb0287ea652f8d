import { buildWorker } from '../../src/cluster/build-worker.ts';
import { followLog } from '../../src/cluster/follow-log.ts';
import type { LogState, Start, ToWorker } from '../../src/cluster/messages.ts';
import type { ProcessContext } from '../../src/cluster/process-context.ts';
import { fromSystemMs, onClockStep, pause, toSystemMs, wallMs } from '../../src/lib/clock.ts';
import { MacSecret } from '../../src/lib/mac.ts';
import { Shutdown } from '../../src/lib/shutdown.ts';
import { Events } from '../../src/observability/events.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { RateLimitCoordinator } from '../../src/rate-limit/coordinator.ts';
import type { LeaseRequest } from '../../src/rate-limit/rate-limit.ts';
import type { RedisStore } from '../../src/redis/store.ts';
import { present } from './present.ts';
import { SimulatedRedis } from './redis.ts';
import type { Host, Process, World } from './world.ts';

/** Delay of a message between the processes of an instance. */
const IPC_MS = 0.15;
const RESTART_MS = 300;
const RECONNECT_S = 1;

export interface InstanceOptions {
  workers: number;
  hasRedis: boolean;
  hasReplica: boolean;
  localBytes: number;
  poolSize: number;
}

/** Stands for `new Redis(…)` of src/cluster/open-redis.ts. */
export function openRedisHere(
  timeoutMs: number,
  onBreaker: (open: boolean, reason: string) => void,
): RedisStore {
  const { world, network, redis } = present();
  return new SimulatedRedis({ process: world.current!, network, servers: redis }, timeoutMs, onBreaker);
}

function configOf(options: InstanceOptions) {
  return {
    DATABASE_URL: 'postgres://service@primary/hotels',
    DATABASE_REPLICA_URLS: options.hasReplica ? 'postgres://service@replica/hotels' : '',
    DATABASE_POOL_SIZE: options.poolSize,
    DATABASE_QUEUE_LIMIT: 100,
    DATABASE_TIMEOUT_MS: 500,
    REDIS_URL: options.hasRedis ? 'redis://redis' : '',
    REDIS_TIMEOUT_MS: 100,
    REDIS_TTL_S: 3_600,
    ABSENT_TTL_S: 10,
    L1_MAX_BYTES: options.localBytes,
    COLLECTIONS_MAX_BYTES: 4 * 1024 * 1024,
    WORKERS: options.workers,
    RATE_LIMIT_SCOPE: 'instance',
    PUBLIC_URL: 'http://api',
    BASE_PATH: '',
    COMPRESSION: 'off',
    ACCESS_LOG_SAMPLE: 0,
    ACCESS_LOG_SLOW_MS: 60_000,
    CONNECTION_MAX_AGE_S: 0,
  };
}

/** Stands for `ProcessContext`: no files, no output. */
class Context {
  readonly config: ReturnType<typeof configOf>;
  readonly shutdown = new Shutdown();
  readonly metrics = new Metrics();
  readonly log: object;
  readonly events: Events;
  readonly secret = new MacSecret();

  constructor(options: InstanceOptions, name: string, world: World) {
    this.config = configOf(options);
    const write = (...words: unknown[]) => {
      // ids of requests are drawn by each process of the real service
      const text = words.map((word) => JSON.stringify(word).replace(/"requestId":"[^"]*",/, '')).join(' ');
      world.trace(`${name} ${text}`);
    };
    this.log = { info: write, warn: write, error: write, fatal: write };
    this.events = new Events(this.log as never);
  }

  onAddressChange(): void {}

  onBreaker(dependency: string): (open: boolean, reason: string) => void {
    return (open, reason) => this.events.breaker(dependency, open, reason);
  }
}

type WorkerParts = ReturnType<typeof buildWorker>;
export interface Server {
  operations: Parameters<typeof import('../../src/http/server.ts').openServer>[0];
  pipeline: Parameters<typeof import('../../src/http/server.ts').openServer>[1];
}

export interface Worker {
  process: Process;
  number: number;
  server: Server | undefined;
  parts: WorkerParts | undefined;
  isListening: boolean;
  startedMs: number;
  /** times at which an answer of the primary server arrived */
  receive: ((message: ToWorker) => void) | undefined;
}

/** One instance: a primary process, and workers, which are replaced when they die. */
export class Instance {
  readonly name: string;
  readonly host: Host;
  readonly options: InstanceOptions;
  readonly workers: (Worker | undefined)[];
  primary: Process | undefined;
  readonly #world: World;
  #state: (() => LogState) | undefined;
  #coordinator = new RateLimitCoordinator();
  #lateAnswerMs: number | undefined;
  #runs = 0;

  constructor(world: World, name: string, options: InstanceOptions) {
    this.#world = world;
    this.name = name;
    this.options = options;
    this.host = world.host(name);
    this.workers = new Array(options.workers).fill(undefined);
  }

  get ready(): Worker[] {
    return this.workers.filter((worker) => worker?.isListening) as Worker[];
  }

  get processes(): Process[] {
    return [this.primary, ...this.workers.map((worker) => worker?.process)].filter(
      (each) => each !== undefined,
    );
  }

  /** Starts the primary process, and workers once it follows the log. */
  start(): void {
    const world = this.#world;
    const run = ++this.#runs;
    this.#coordinator = new RateLimitCoordinator();
    const primary = world.spawn(this.host, `${this.name}.primary`, () => {
      const context = new Context(this.options, `${this.name}.primary`, world);
      const log = followLog(context as unknown as ProcessContext, false, {
        onHistory: ({ history, position, secret }, prefix) =>
          this.#broadcast({ type: 'history', history, position, prefix, secret }),
        onRestart: (prefix) => this.#broadcast({ type: 'restarted', prefix }),
        onNews: (news) => this.#broadcast({ type: 'log', news }),
        onLearned: (rows, floor) => this.#broadcast({ type: 'learned', rows, floor }),
        onReachable: () => this.#broadcast({ type: 'reachable' }),
      });
      void log.follower.start().then(() => {
        this.#state = log.state;
        for (let number = 1; number <= this.options.workers; number++) this.#fork(number, run);
      });
    });
    this.primary = primary;
    this.#lateAnswerMs = undefined;
  }

  /** Ends the primary process at once; the workers end with it. */
  kill(): void {
    this.#runs++;
    this.#state = undefined;
    this.primary?.die();
    this.primary = undefined;
    for (const [i, worker] of this.workers.entries()) {
      worker?.process.die();
      this.workers[i] = undefined;
    }
  }

  /** Ends a worker at once; another takes its place. */
  killWorker(index: number): void {
    const worker = this.workers[index];
    if (!worker || !this.primary) return;
    worker.process.die();
    this.workers[index] = undefined;
    const run = this.#runs;
    this.primary.receive(() => this.#fork(index + 1, run), RESTART_MS);
  }

  #broadcast(message: ToWorker): void {
    for (const worker of this.workers) if (worker) this.#send(worker, message);
  }

  readonly #lastMs = new WeakMap<Process, number>();

  /** Delivers in order, as a pipe does. */
  #send(worker: Worker, message: ToWorker): void {
    const copy = message.type === 'start' ? message : structuredClone(message);
    const world = this.#world;
    const atMs = Math.max((this.#lastMs.get(worker.process) ?? 0) + 0.001, world.nowMs + IPC_MS);
    this.#lastMs.set(worker.process, atMs);
    worker.process.receive(() => worker.receive?.(copy), atMs - world.nowMs);
  }

  #fork(number: number, run: number): void {
    if (run !== this.#runs || this.workers[number - 1]) return;
    const world = this.#world;
    const name = `${this.name}.worker${number}`;
    const worker: Worker = {
      ...{ process: undefined as never, number, server: undefined, parts: undefined },
      ...{ isListening: false, startedMs: world.nowMs, receive: undefined },
    };
    worker.process = world.spawn(this.host, name, () => {
      worker.receive = (message) => {
        if (message.type !== 'start') return;
        worker.receive = this.#startWorker(worker, message, name);
      };
      // the primary answers `up` with what it knows then
      this.primary!.receive(() => {
        if (run !== this.#runs || worker.process.isDead) return;
        const start = {
          type: 'start',
          number,
          pooled: false,
          warmUpMs: 0,
          log: this.#state!(),
          lateAnswerMs: this.#lateAnswerMs,
        };
        this.#send(worker, start as unknown as Start);
      }, IPC_MS);
    });
    this.workers[number - 1] = worker;
  }

  /** Does what src/cluster/worker.ts does, without its port and its reports. */
  #startWorker(
    worker: Worker,
    { log, lateAnswerMs, number, pooled }: Start,
    name: string,
  ): (message: ToWorker) => void {
    const world = this.#world;
    const context = new Context(this.options, name, world);
    context.secret.use(log.secret);
    present().onServer = (server) => {
      worker.server = server as Server;
      return { listen: () => {}, close: () => {}, connections: 0 };
    };
    const parts = buildWorker(
      context as unknown as ProcessContext,
      { documents: {} as never, number, pooled },
      (requests: LeaseRequest[]) =>
        this.primary?.receive(() => {
          const grants = requests.map((request) => this.#coordinator.grant(number, request));
          this.#send(worker, { type: 'grant', grants });
        }, IPC_MS),
      (atMs) => {
        const lateAnswerMs = toSystemMs(atMs);
        this.primary?.receive(() => {
          this.#lateAnswerMs = lateAnswerMs;
        }, IPC_MS);
      },
    );
    worker.parts = parts;
    const { postgres, origin, apiKeys, logApplier, limiter } = parts;
    const preloadKeys = () =>
      apiKeys.preload().catch(() => {
        void pause(1_000).then(preloadKeys);
      });
    logApplier.start(log);
    if (lateAnswerMs !== undefined) parts.freshness.answered(fromSystemMs(lateAnswerMs));
    onClockStep((byMs, sleptMs) => {
      if (sleptMs > 0) parts.freshness.slept(sleptMs);
      const nowMs = wallMs();
      const isOtherDay = new Date(nowMs - byMs).getUTCDate() !== new Date(nowMs).getUTCDate();
      if (byMs < 0 && isOtherDay) parts.local?.clear();
    });
    void Promise.all([
      parts.redis?.connected(500),
      postgres.connected(300),
      Promise.race([preloadKeys(), pause(200)]),
      origin.connected(300),
    ]).then(() => {
      worker.isListening = true;
      parts.hotelList.index.prepare();
    });
    return (message) => {
      switch (message.type) {
        case 'log':
          logApplier.apply(message.news);
          break;
        case 'learned':
          logApplier.learn(message.rows, message.floor);
          break;
        case 'reachable':
          postgres.reachable();
          break;
        case 'restarted':
          logApplier.serverRestarted(message.prefix);
          break;
        case 'history':
          context.secret.use(message.secret);
          logApplier.begin(message.history, message.position, message.prefix);
          postgres.reconnect(RECONNECT_S);
          origin.reconnect(RECONNECT_S);
          void preloadKeys();
          break;
        case 'grant':
          limiter.receive(message.grants);
          break;
      }
    };
  }
}
