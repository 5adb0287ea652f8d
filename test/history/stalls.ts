import { request } from 'node:http';
import type { Instance } from './instance.ts';
import { Overload } from './overload.ts';
import type { Served, System } from './system.ts';

const EVERY_MS = 100;
/** A new connection costs PostgreSQL a process. */
const TICKS_PER_CONNECTION = 5;
/** Duration from which a trivial operation counts as a stall. */
const SLOW_MS = 150;
const PROBE_TIMEOUT_MS = 15_000;

/**
 * Detects stalls of the machine, for which promises do not hold. If this process, a primary, a worker, PostgreSQL or Redis is
 * slow in a trivial operation, or a new connection to PostgreSQL is, the bounds are those of a fault. A process that a fault has
 * frozen is not slow.
 */
export class Stalls {
  readonly #system: System;
  /** running probes by their names */
  readonly #busy = new Map<string, { fromMs: number; served: Served[] }>();
  readonly #ticking: NodeJS.Timeout;
  /** of this process alone: faults stop the others */
  readonly #overload = new Overload();
  #lastMs = performance.now();
  #ticks = 0;
  #slowUntilMs = 0;
  /** total time of widened bounds */
  totalMs = 0;

  constructor(system: System) {
    this.#system = system;
    this.#ticking = setInterval(() => this.#tick(), EVERY_MS);
  }

  stop(): void {
    clearInterval(this.#ticking);
  }

  /** Returns true if nothing can be judged at this time. */
  isOverloadedAt(atMs: number): boolean {
    return this.#overload.isAt(atMs);
  }

  /** Returns true while a probe from before this time runs, so that a stall may be noted yet. */
  isProbing(served: Served, beforeMs: number): boolean {
    return [...this.#busy.values()].some((probe) => probe.fromMs < beforeMs && probe.served.includes(served));
  }

  #tick(): void {
    const nowMs = performance.now();
    const dueMs = this.#lastMs + EVERY_MS;
    if (nowMs - dueMs >= SLOW_MS) this.#overload.stalled(dueMs, nowMs);
    this.#noteStall('this process', dueMs, nowMs, this.#system.served);
    this.#lastMs = nowMs;
    for (const served of this.#system.served) {
      const { instance } = served;
      this.#try(instance.name, [served], () => responds(instance, instance.adminPort));
      this.#try(`a worker of ${instance.name}`, [served], () => responds(instance, instance.port));
    }
    this.#try('PostgreSQL', this.#system.served, () => this.#system.databases[0]!.sql`select 1`);
    if (this.#ticks++ % TICKS_PER_CONNECTION === 0)
      this.#try('a new connection to PostgreSQL', this.#system.served, () =>
        this.#system.connect(PROBE_TIMEOUT_MS),
      );
    this.#try('Redis', this.#system.served, () => this.#system.redisClient.ping());
  }

  /** Runs one probe at a time; a failed one is ignored. */
  #try(what: string, served: Served[], send: () => PromiseLike<unknown>): void {
    if (this.#busy.has(what)) return;
    const fromMs = performance.now();
    this.#busy.set(what, { fromMs, served });
    send().then(
      () => {
        this.#busy.delete(what);
        this.#noteStall(what, fromMs, performance.now(), served);
      },
      () => this.#busy.delete(what),
    );
  }

  #noteStall(what: string, fromMs: number, untilMs: number, served: Served[]): void {
    if (untilMs - fromMs < SLOW_MS) return;
    for (const { bounds } of served) bounds.slow(`${what} was slow`, fromMs, untilMs);
    this.totalMs += Math.max(0, untilMs - Math.max(fromMs, this.#slowUntilMs));
    this.#slowUntilMs = Math.max(this.#slowUntilMs, untilMs);
  }
}

/** Resolves when a new connection to this port gets a response; rejects if the instance was frozen or thawed meanwhile. */
async function responds(instance: Instance, port: number): Promise<void> {
  const before = instance.freezes;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const signal = AbortSignal.timeout(PROBE_TIMEOUT_MS);
  request({ host: '127.0.0.1', port, path: '/livez', agent: false, signal })
    .on('response', (response) => response.on('error', reject).on('end', resolve).resume())
    .on('error', reject)
    .end();
  await promise;
  if (instance.freezes !== before) throw new Error(`${instance.name} was frozen`);
}
