import cluster, { type Worker } from 'node:cluster';
import { fileURLToPath } from 'node:url';
import { Registry } from 'prom-client';
import type { Events } from '../observability/events.ts';
import type { Metrics } from '../observability/metrics.ts';
import { Quotas } from '../rate-limit/coordinator.ts';
import type { Start, ToPrimary, ToWorker } from './messages.ts';
import { FROZEN_MS, mainThreadOf, Silence, START_MS } from './silence.ts';

/** A worker that lived this long was not ended by its start, whatever became of those before it. */
const STEADY_MS = 10_000;
/** The first to end is replaced at once; the pauses before those that follow begin with this one and double. */
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 10_000;
const WATCH_EVERY_MS = 250;
/** How long a scrape waits for the workers' present counts. */
const REPORT_PATIENCE_MS = 500;

type MetricsJson = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

interface Charge {
  worker: Worker;
  /** from 1; whoever takes its place gets it too */
  number: number;
  startedAtMs: number;
  nextPauseMs: number;
  silence: Silence;
  /** its program is read */
  up: boolean;
  listening: boolean;
  metrics: MetricsJson;
  /** of those who wait for its present metrics */
  reported: (() => void)[];
}

/** The workers of this instance: started, replaced when they end, counted together. */
export class Workers {
  readonly #events: Events;
  readonly #metrics: Metrics;
  readonly #startOf: (number: number) => Start;
  readonly #charges = new Map<number, Charge>();
  /** counters of workers that have ended: of each, until they are summed in the first place */
  readonly #legacy: MetricsJson[] = [];
  #summing = Promise.resolve();
  readonly #quotas = new Quotas();
  #stopping = false;
  readonly #watch: NodeJS.Timeout;
  #watchedAtMs = performance.now();

  /** Starts `count` workers; `startOf` is asked whenever one opens what it is to be told. */
  constructor(count: number, startOf: (number: number) => Start, metrics: Metrics, events: Events) {
    this.#startOf = startOf;
    this.#metrics = metrics;
    this.#events = events;
    cluster.setupPrimary({
      exec: fileURLToPath(new URL('./worker.ts', import.meta.url)),
      serialization: 'advanced',
    });
    for (let number = 1; number <= count; number++) this.#start(number, 0);
    this.#watch = setInterval(() => this.#endFrozen(), WATCH_EVERY_MS);
  }

  /** Workers that accept connections. */
  get listening(): number {
    return [...this.#charges.values()].filter(({ listening }) => listening).length;
  }

  tellAll(message: ToWorker): void {
    for (const { worker } of this.#charges.values()) tell(worker, message);
  }

  /** The metrics of all workers, those that have ended included, and `own`. */
  async gather(own: Registry): Promise<string> {
    const asked = [...this.#charges.values()].map((charge) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      charge.reported.push(resolve);
      return promise;
    });
    this.tellAll({ type: 'report metrics' });
    await Promise.race([
      Promise.all(asked),
      new Promise((resolve) => setTimeout(resolve, REPORT_PATIENCE_MS)),
    ]);
    const all = [...this.#charges.values()].map(({ metrics }) => metrics);
    return Registry.aggregate([await own.getMetricsAsJSON(), ...this.#legacy, ...all] as never).metrics();
  }

  /** Tells every worker to finish; resolves when all have ended, or have been killed after `deadlineMs`. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#watch);
    const ended = [...this.#charges.values()].map(
      ({ worker }) => new Promise((resolve) => worker.once('exit', resolve)),
    );
    this.tellAll({ type: 'drain' });
    const timer = setTimeout(() => this.kill(), deadlineMs);
    await Promise.all(ended);
    clearTimeout(timer);
  }

  kill(): void {
    for (const { worker } of this.#charges.values()) worker.process.kill('SIGKILL');
  }

  /** `nextPauseMs`: how long the one that takes its place must wait, should it end at once. */
  #start(number: number, nextPauseMs: number): void {
    const worker = cluster.fork();
    const nowMs = performance.now();
    const charge: Charge = {
      worker,
      number,
      startedAtMs: nowMs,
      nextPauseMs,
      silence: new Silence(nowMs),
      up: false,
      listening: false,
      metrics: [],
      reported: [],
    };
    this.#charges.set(worker.id, charge);
    worker.on('message', (message: ToPrimary) => this.#hear(charge, message));
    worker.on('exit', (code, signal) => this.#ended(charge, code, signal));
  }

  #hear(charge: Charge, message: ToPrimary): void {
    charge.silence.broken(performance.now());
    charge.up = true;
    switch (message.type) {
      case 'up':
        tell(charge.worker, this.#startOf(charge.number));
        break;
      case 'listening':
        charge.listening = true;
        this.#events.workerStarted(charge.worker.process.pid!);
        break;
      case 'metrics':
        charge.metrics = message.metrics as MetricsJson;
        this.#reported(charge);
        break;
      case 'ask':
        tell(charge.worker, { type: 'grant', grants: message.asks.map((ask) => this.#quotas.grant(ask)) });
        break;
      case 'failed':
        this.#events.workerFailed(charge.worker.process.pid!, message.reason);
        break;
    }
  }

  #ended(charge: Charge, code: number | null, signal: string | null): void {
    this.#charges.delete(charge.worker.id);
    this.#reported(charge);
    if (this.#stopping) return;
    this.#metrics.workerRestarted();
    this.#remember(charge.metrics);
    const steady = performance.now() - charge.startedAtMs >= STEADY_MS;
    const restartInMs = steady ? 0 : charge.nextPauseMs;
    const nextPauseMs = Math.min(Math.max(FIRST_PAUSE_MS, 2 * restartInMs), LONGEST_PAUSE_MS);
    this.#events.workerEnded({ workerPid: charge.worker.process.pid!, code, signal, restartInMs });
    setTimeout(() => {
      if (!this.#stopping) this.#start(charge.number, nextPauseMs);
    }, restartInMs);
  }

  /** A worker's counters outlive it; what it gauged does not. */
  #remember(metrics: MetricsJson): void {
    const counters = metrics.filter(({ type }) => String(type) === 'counter' || String(type) === 'histogram');
    // counted from this turn on: a scrape that missed them would see its counters fall
    this.#legacy.push(counters);
    this.#summing = this.#summing.then(async () => {
      const summed = this.#legacy.length;
      const sum = await Registry.aggregate(this.#legacy as never).getMetricsAsJSON();
      this.#legacy.splice(0, summed, sum);
    });
  }

  #reported(charge: Charge): void {
    for (const resolve of charge.reported.splice(0)) resolve();
  }

  #endFrozen(): void {
    const nowMs = performance.now();
    const stoodStill = nowMs - this.#watchedAtMs > 4 * WATCH_EVERY_MS;
    this.#watchedAtMs = nowMs;
    for (const { worker, silence, up } of this.#charges.values()) {
      // a primary that slept itself has not read yet what the workers said meanwhile
      if (stoodStill) silence.broken(nowMs);
      const look = () => mainThreadOf(worker.process.pid!);
      if (silence.isFinal(nowMs, up ? FROZEN_MS : START_MS, look)) worker.process.kill('SIGKILL');
    }
  }
}

/** A worker may have died a moment ago without our knowing: that is told by its exit, not here. */
function tell(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => {});
}
