import { EventEmitter } from 'node:events';
import { buildWorker } from '../../src/cluster/build-worker.ts';
import type { ProcessContext } from '../../src/cluster/process-context.ts';
import { startWorkers } from '../../src/cluster/start-workers.ts';
import type { Start, ToPrimary, ToWorker } from '../../src/cluster/workers.ts';
import { readConfig } from '../../src/config/config.ts';
import { clearTimer, every } from '../../src/lib/clock.ts';
import { Shutdown } from '../../src/lib/shutdown.ts';
import type { LogEvent } from '../../src/log/follower.ts';
import { Events } from '../../src/observability/events.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { present } from './present.ts';
import type { Host, Process, World } from './world.ts';

/** Delay of a message between the processes of an instance. */
const IPC_MS = 0.15;
/** Time in which a process loads the program. */
const LOAD_MS = [100, 400] as const;

interface InstanceOptions {
  workers: number;
  redisUrl: string;
  hasReplica: boolean;
  localBytes: number;
  poolSize: number;
  warmUpMs: number;
}

function configOf(options: InstanceOptions) {
  return {
    ...readConfig({ DATABASE_URL: 'postgres://service@primary/hotels' }),
    DATABASE_REPLICA_URLS: options.hasReplica ? 'postgres://service@replica/hotels' : '',
    DATABASE_POOL_SIZE: options.poolSize,
    DATABASE_QUEUE_LIMIT: 100,
    REDIS_URL: options.redisUrl,
    REDIS_TTL_S: 3_600,
    L1_MAX_BYTES: options.localBytes,
    COLLECTIONS_MAX_BYTES: 4 * 1024 * 1024,
    WORKERS: options.workers,
    WARMUP_TIMEOUT_MS: options.warmUpMs,
    DRAIN_TIMEOUT_MS: 1_000,
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

  repeat(callback: () => void, intervalMs: number): void {
    const timer = every(callback, intervalMs);
    this.shutdown.push('timer', () => clearTimer(timer));
  }

  onBreaker(dependency: string): (open: boolean, reason: string) => void {
    return (open, reason) => this.events.breaker(dependency, open, reason);
  }
}

type Opened = Parameters<typeof import('../../src/http/server.ts').openServer>;
export type Server = { operations: Opened[0]; pipeline: Opened[1] };

/** Copies a message as the pipe does: it is plain data. */
function copyOf<Value>(value: Value): Value {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(copyOf) as Value;
  if (Object.getPrototypeOf(value) !== Object.prototype) return structuredClone(value);
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, copyOf(part)])) as Value;
}

/** A pipe between two processes: messages arrive in order. */
function pipeTo(world: World, to: Process): (deliver: () => void) => void {
  let lastMs = 0;
  return (deliver) => {
    lastMs = Math.max(lastMs + 0.001, world.nowMs + IPC_MS);
    to.receive(deliver, lastMs - world.nowMs);
  };
}

/** Stands for `Worker` of node:cluster, in the primary process. */
export class Worker extends EventEmitter {
  readonly process: Process;
  readonly instance: Instance;
  server: Server | undefined;
  isListening = false;
  readonly #down: (deliver: () => void) => void;
  readonly #up: (deliver: () => void) => void;
  #receive: ((message: ToWorker) => void) | undefined;

  constructor(world: World, instance: Instance) {
    super();
    this.instance = instance;
    const { primary, host } = instance;
    const loadsMs = world.random.between(...LOAD_MS);
    this.process = world.spawn(host, `${instance.name}.worker`, () => this.#post({ type: 'up' }), loadsMs);
    this.#down = pipeTo(world, this.process);
    this.#up = pipeTo(world, primary!);
    this.process.onKilled = () => {
      instance.workers.delete(this);
      this.#up(() => this.emit('exit', null, 'SIGKILL'));
    };
  }

  isConnected(): boolean {
    return !this.process.isDead;
  }

  send(message: ToWorker): void {
    // its window alone are 8 MiB, which the worker copies
    const copy = message.type === 'start' ? message : copyOf(message);
    this.#down(() => {
      if (copy.type === 'start') this.#start(copy);
      else this.#receive?.(copy);
    });
  }

  #post(message: ToPrimary): void {
    this.#up(() => this.emit('message', message));
  }

  /** Does what src/cluster/worker.ts does in a process of its own. */
  #start(start: Start): void {
    const context = new Context(this.instance.options, this.process.name, present().world);
    present().onServer = (server) => {
      this.server = server as Server;
      const listen = () => {
        this.isListening = true;
      };
      return { listen, close: () => {}, connections: 0 };
    };
    const worker = buildWorker(context as unknown as ProcessContext, start, (message) => this.#post(message));
    every(() => this.#post({ type: 'alive', usage: [] }), 1_000);
    this.#receive = (message) => {
      if (message.type === 'grant') worker.limiter.receive(message.grants);
      else worker.logApplier.receive(message as LogEvent);
    };
    void worker.start();
  }
}

/** Stands for node:cluster: a worker of the instance whose primary process runs at present. */
export const cluster = {
  setupPrimary: () => {},
  fork: () => present().world.current!.fork!(),
};

/** One instance: a primary process, which replaces workers that die. */
export class Instance {
  readonly name: string;
  readonly host: Host;
  readonly options: InstanceOptions;
  readonly workers = new Set<Worker>();
  primary: Process | undefined;
  readonly #world: World;

  constructor(world: World, name: string, options: InstanceOptions) {
    this.#world = world;
    this.name = name;
    this.options = options;
    this.host = world.host(name);
  }

  get ready(): Worker[] {
    return [...this.workers].filter(({ isListening }) => isListening);
  }

  get processes(): Process[] {
    return [this.primary ?? [], [...this.workers].map(({ process }) => process)].flat();
  }

  /** Starts the primary process, which starts workers once it follows the log. */
  start(): void {
    if (this.primary) return;
    const world = this.#world;
    const primary = world.spawn(this.host, `${this.name}.primary`, () => {
      const context = new Context(this.options, `${this.name}.primary`, world);
      void startWorkers(context as unknown as ProcessContext, false, () => false);
    });
    primary.fork = () => {
      const worker = new Worker(world, this);
      this.workers.add(worker);
      return worker;
    };
    this.primary = primary;
  }

  /** Ends the primary process at once; the workers end with it. */
  kill(): void {
    for (const process of this.processes) process.kill();
    this.primary = undefined;
  }
}
