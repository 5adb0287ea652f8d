import cluster, { type Worker } from 'node:cluster';
import { fileURLToPath } from 'node:url';
import { Registry } from 'prom-client';
import type { KeyUsage } from '../auth/usage.ts';
import type { Config } from '../config/config.ts';
import { clearTimer, every, monotonicMs, setTimer, type Timer } from '../lib/clock.ts';
import { withDeadline } from '../lib/deadline.ts';
import type { LogEvent } from '../log/follower.ts';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import type { Applied } from '../postgres/origin.ts';
import { type CountWindow, RateLimitCoordinator } from '../rate-limit/coordinator.ts';
import type { LeaseGrant, LeaseRequest } from '../rate-limit/rate-limit.ts';
import { HASH_SEED_HEX, HASH_SEED_VARIABLE } from '../wasm/load.ts';

/** Lifetime after which a worker's end is not attributed to its start. */
const STEADY_MS = 10_000;
/** The first exit is followed by an immediate restart; later pauses begin with this one and double. */
const FIRST_RESTART_PAUSE_MS = 100;
const LONGEST_RESTART_PAUSE_MS = 10_000;
/** Time without a report after which a worker is ended. Workers report once a second, as soon as they are built. */
const SILENT_MS = 10_000;
/** The same until its first report: on a busy machine it loads its program for long. */
const START_MS = 60_000;
const WATCH_EVERY_MS = 1_000;
/** Maximum time that a scrape waits for the workers' present metrics. */
const REPORT_TIMEOUT_MS = 500;

/** What the primary process knows of the log when a worker begins. */
export interface FollowedLog extends Applied {
  /** that of the applied position */
  transaction: string;
  /** secret of the history, which is never logged */
  secret: Uint8Array;
  /** `Freshness.unansweredAsOfMs`, by `monotonicMs` */
  asOfMs: number;
  /** see `News` */
  isListing: boolean;
  /** see `Window.copy` */
  window: Float64Array;
}

/** Data that a worker needs to open its port. */
export interface Start {
  type: 'start';
  log: FollowedLog;
  /** true: DATABASE_URL leads through a pooler */
  pooled: boolean;
  config: Config;
  /** number of the worker, from 1; a replacement has the number of the worker it replaces */
  number: number;
  /** maximum time of the warm-up; 0 for a replacement while no other worker serves */
  warmUpMs: number;
}

/** Messages from the primary process to a worker. */
export type ToWorker =
  /** the first message that a worker handles; messages before it are dropped, except `drain` */
  Start | LogEvent | { type: 'report metrics' } | { type: 'grant'; grants: LeaseGrant[] } | { type: 'drain' };

/** Messages from a worker to the primary process. */
export type ToPrimary =
  /** waits for `start` */
  | { type: 'up' }
  | { type: 'listening' }
  /** once a second, with the use of keys since the last one */
  | { type: 'alive'; usage: KeyUsage[] }
  /** its metrics, on request */
  | { type: 'metrics'; metrics: object[] }
  /** PostgreSQL has answered although the worker was not current for long: it is no outage for a later worker either */
  | { type: 'late answer'; atMs: number }
  /** requests leases of rate limits; answered by `grant` */
  | { type: 'leases'; requests: LeaseRequest[] };

type MetricsJson = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

interface WorkerHandle {
  worker: Worker;
  /** number from 1, kept by a replacement */
  number: number;
  startedAtMs: number;
  nextPauseMs: number;
  /** time by which it must report again, by the checks */
  dueAtMs: number;
  listening: boolean;
  /** as of the last scrape */
  metrics: MetricsJson;
  /** scrapes that wait for its present metrics */
  reported: (() => void)[];
}

interface WorkersOptions {
  /** returns the start data of a worker. It may not warm up if none accepts connections any more */
  startOf: (number: number, mayWarmUp: boolean) => Start;
  metrics: Metrics;
  events: Events;
  onUsage: (usage: KeyUsage[]) => void;
  /** receives the time, by `monotonicMs`, of an answer of PostgreSQL to a worker that was not current for long */
  onLateAnswer: (atMs: number) => void;
  /** counts rate limits over all instances; undefined: this instance counts by itself */
  countWindow: CountWindow | undefined;
}

/** Starts the workers of this instance, replaces those that end, and sums their metrics. */
export class Workers {
  readonly #options: WorkersOptions;
  readonly #handles = new Set<WorkerHandle>();
  /** metrics of ended workers, until they are summed */
  readonly #ofEnded: MetricsJson[] = [];
  #summing = Promise.resolve();
  readonly #rateLimits: RateLimitCoordinator;
  readonly #count: number;
  #isReady = false;
  #stopping = false;
  readonly #watch: Timer;
  /** time by the checks: while the primary process is stopped, it reads no reports of workers */
  #checkedAtMs = 0;

  /** Starts `count` workers. */
  constructor(count: number, options: WorkersOptions) {
    this.#count = count;
    this.#options = options;
    this.#rateLimits = new RateLimitCoordinator(options.countWindow);
    cluster.setupPrimary({
      exec: fileURLToPath(new URL('./worker.ts', import.meta.url)),
      serialization: 'advanced',
    });
    for (let number = 1; number <= count; number++) this.#start(number, 0);
    this.#watch = every(() => this.#endSilent(), WATCH_EVERY_MS);
  }

  /** Returns the number of workers that accept connections. */
  get listening(): number {
    return [...this.#handles].filter(({ listening }) => listening).length;
  }

  /** Returns true if workers accept connections and the first ones have all warmed up. */
  get ready(): boolean {
    this.#isReady ||= this.listening === this.#count;
    return this.#isReady && this.listening > 0;
  }

  broadcast(message: ToWorker): void {
    for (const { worker } of this.#handles) send(worker, message);
  }

  /** Returns the metrics of all workers, ended ones included, and `own`. */
  async gather(own: () => Promise<object[]>): Promise<string> {
    const reports = [...this.#handles].map(
      ({ reported }) => new Promise<void>((resolve) => reported.push(resolve)),
    );
    this.broadcast({ type: 'report metrics' });
    // then with what a worker reported before
    await withDeadline(Promise.all(reports), REPORT_TIMEOUT_MS).catch(() => {});
    const ofPrimary = await own();
    // one that ended meanwhile is among the ended ones
    const ofWorkers = [...this.#handles].map(({ metrics }) => metrics);
    return Registry.aggregate([ofPrimary, ...this.#ofEnded, ...ofWorkers] as never).metrics();
  }

  /** Lets every worker finish; resolves when all have ended, or were killed after `deadlineMs`. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping = true;
    clearTimer(this.#watch);
    const ended = [...this.#handles].map(
      ({ worker }) => new Promise((resolve) => worker.once('exit', resolve)),
    );
    this.broadcast({ type: 'drain' });
    const timer = setTimer(() => this.kill(), deadlineMs);
    await Promise.all(ended);
    clearTimer(timer);
  }

  kill(): void {
    for (const { worker } of this.#handles) worker.process.kill('SIGKILL');
  }

  /** `nextPauseMs`: pause before its replacement if it ends at once. */
  #start(number: number, nextPauseMs: number): void {
    const { events } = this.#options;
    let worker: Worker;
    try {
      worker = cluster.fork({ [HASH_SEED_VARIABLE]: HASH_SEED_HEX });
    } catch (error) {
      // of a machine without a process for it, Node emits some errors and throws others, ENOMEM among them
      events.workerFailed(undefined, (error as Error).message);
      this.#replace(number, nextPauseMs, { workerPid: undefined, code: null, signal: null });
      return;
    }
    const handle: WorkerHandle = {
      worker,
      number,
      startedAtMs: monotonicMs(),
      nextPauseMs,
      dueAtMs: this.#checkedAtMs + START_MS,
      listening: false,
      metrics: [],
      reported: [],
    };
    this.#handles.add(handle);
    worker.on('message', (message: ToPrimary) => this.#receive(handle, message));
    worker.on('exit', (code, signal) => this.#ended(handle, code, signal));
    worker.on('error', ({ message }) => {
      events.workerFailed(worker.process.pid, message);
      // a process that was not started does not end either
      if (worker.process.pid === undefined) this.#ended(handle, null, null);
    });
  }

  #receive(handle: WorkerHandle, message: ToPrimary): void {
    if (message.type !== 'up') handle.dueAtMs = this.#checkedAtMs + SILENT_MS;
    switch (message.type) {
      case 'up':
        send(handle.worker, this.#options.startOf(handle.number, !this.#isReady || this.listening > 0));
        break;
      case 'listening':
        handle.listening = true;
        break;
      case 'metrics':
        handle.metrics = message.metrics as MetricsJson;
        this.#reported(handle);
        break;
      case 'late answer':
        this.#options.onLateAnswer(message.atMs);
        break;
      case 'alive':
        this.#options.onUsage(message.usage);
        break;
      case 'leases':
        void this.#rateLimits
          .grant(message.requests)
          .then((grants) => send(handle.worker, { type: 'grant', grants }));
        break;
    }
  }

  #ended(handle: WorkerHandle, code: number | null, signal: string | null): void {
    this.#handles.delete(handle);
    this.#reported(handle);
    if (this.#stopping) return;
    this.#remember(handle.metrics);
    const steady = monotonicMs() - handle.startedAtMs >= STEADY_MS;
    const workerPid = handle.worker.process.pid;
    this.#replace(handle.number, steady ? 0 : handle.nextPauseMs, { workerPid, code, signal });
  }

  #replace(
    number: number,
    restartInMs: number,
    ended: Omit<Parameters<Events['workerEnded']>[0], 'restartInMs'>,
  ): void {
    const { events, metrics } = this.#options;
    metrics.workerRestarts.inc();
    events.workerEnded({ ...ended, restartInMs });
    const nextPauseMs = Math.min(Math.max(FIRST_RESTART_PAUSE_MS, 2 * restartInMs), LONGEST_RESTART_PAUSE_MS);
    setTimer(() => {
      if (!this.#stopping) this.#start(number, nextPauseMs);
    }, restartInMs);
  }

  /** Keeps the counters of an ended worker as of the last scrape, without its gauges and those of its process. */
  #remember(metrics: MetricsJson): void {
    const counters = metrics.filter(
      ({ name, type }) => name.startsWith('hotel_api_') && /^(counter|histogram)$/.test(String(type)),
    );
    // counted immediately: a scrape in between would see the counters fall
    this.#ofEnded.push(counters);
    this.#summing = this.#summing.then(async () => {
      const summed = this.#ofEnded.length;
      const sum = await Registry.aggregate(this.#ofEnded as never).getMetricsAsJSON();
      this.#ofEnded.splice(0, summed, sum);
    });
  }

  #reported(handle: WorkerHandle): void {
    for (const resolve of handle.reported.splice(0)) resolve();
  }

  #endSilent(): void {
    this.#checkedAtMs += WATCH_EVERY_MS;
    for (const { worker, dueAtMs } of this.#handles)
      if (this.#checkedAtMs > dueAtMs) worker.process.kill('SIGKILL');
  }
}

/** Sends to a worker that may have died; its exit event reports that. */
function send(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => {});
}
