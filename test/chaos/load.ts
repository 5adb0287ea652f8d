import { fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { closeAtEnd } from '../support/cleanup.ts';
import { type Mix, now, type Order, type Report, type Sample } from './sample.ts';

type LoadOptions = Omit<Extract<Order, { type: 'start' }>, 'type'>;

/** Load from a separate process, see `generator.ts`. It is stopped at the end of the file. */
export class Load {
  /** in the order of their completion */
  #samples: Sample[] = [];
  /** wrong and lost requests, the first few of each tenth of a second */
  readonly faults: { atMs: number; what: string }[] = [];
  /** delays of the generator itself in ms: the machine's part in the measurements */
  #late: { atMs: number; ms: number }[] = [];
  #reportedMs = 0;
  readonly #child;
  #stopped: Promise<void> | undefined;

  private constructor() {
    this.#child = fork(fileURLToPath(new URL('./generator.ts', import.meta.url)), {
      serialization: 'advanced',
      execArgv: [],
    });
    this.#child.on('message', (report: Report) => {
      if (report.type !== 'samples') return;
      this.#reportedMs = report.at;
      for (const sample of report.samples) this.#samples.push(sample);
      for (const what of report.faults) this.faults.push({ atMs: report.at, what });
      for (const ms of report.late) this.#late.push({ atMs: report.at, ms });
    });
  }

  /** Starts the 200 requests/s of the promise. */
  static start(options: LoadOptions): Load {
    const load = new Load();
    load.#send({ type: 'start', ...options });
    closeAtEnd('load', () => load.stop());
    return load;
  }

  /** Sets the rates of the kinds. */
  mix(mix: Mix): void {
    this.#send({ type: 'mix', mix });
  }

  /** Resolves when all requests completed before now are reported. */
  async reported(): Promise<void> {
    const untilMs = now();
    while (this.#reportedMs < untilMs) {
      if (this.#child.exitCode !== null) throw new Error('the load generator has exited');
      await sleep(10);
    }
  }

  /** Returns the completed requests that were due in this span. */
  between(fromMs: number, toMs: number): Sample[] {
    return this.#samples.filter(({ dueMs }) => dueMs >= fromMs && dueMs < toMs);
  }

  /** Returns the maximum delay of the generator in this span, in ms. */
  latest(fromMs: number, toMs: number): number {
    return this.#late.reduce(
      (most, { atMs, ms }) => (atMs >= fromMs && atMs < toMs ? Math.max(most, ms) : most),
      0,
    );
  }

  /** Drops the samples due before, for long loads. */
  drop(beforeMs: number): void {
    this.#samples = this.#samples.filter(({ dueMs }) => dueMs >= beforeMs);
    this.#late = this.#late.filter(({ atMs }) => atMs >= beforeMs);
  }

  stop(): Promise<void> {
    this.#stopped ??= new Promise((resolve) => {
      if (this.#child.exitCode !== null) return resolve();
      this.#child.once('exit', () => resolve());
      this.#send({ type: 'stop' });
    });
    return this.#stopped;
  }

  #send(order: Order): void {
    if (this.#child.connected) this.#child.send(order, () => {});
  }
}
