import { request } from 'node:http';
import type { Served, System } from './system.ts';

const EVERY_MS = 100;
/** Duration from which a trivial operation counts as a stall. */
const SLOW_MS = 150;
const GIVE_UP_MS = 15_000;

/**
 * Detects stalls of the machine, for which promises do not hold. If this process, a primary, PostgreSQL or Redis is slow in
 * a trivial operation, the bounds are those of a fault.
 */
export class Stalls {
  readonly #system: System;
  readonly #busy = new Set<string>();
  readonly #ticking: NodeJS.Timeout;
  #lastMs = performance.now();
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

  #tick(): void {
    const nowMs = performance.now();
    this.#judge('this process', this.#lastMs + EVERY_MS, nowMs, this.#system.served);
    this.#lastMs = nowMs;
    for (const served of this.#system.served)
      this.#try(served.instance.name, [served], () => alive(served.instance.adminPort));
    this.#try('PostgreSQL', this.#system.served, () => this.#system.databases[0]!.sql`select 1`);
    this.#try('Redis', this.#system.served, () => this.#system.redisClient.ping());
  }

  /** Runs one probe at a time; a failed one is ignored. */
  #try(what: string, served: Served[], ask: () => PromiseLike<unknown>): void {
    if (this.#busy.has(what)) return;
    this.#busy.add(what);
    const fromMs = performance.now();
    ask().then(
      () => {
        this.#busy.delete(what);
        this.#judge(what, fromMs, performance.now(), served);
      },
      () => this.#busy.delete(what),
    );
  }

  #judge(what: string, fromMs: number, untilMs: number, served: Served[]): void {
    if (untilMs - fromMs < SLOW_MS) return;
    for (const { bounds } of served) bounds.slow(`${what} was slow`, fromMs, untilMs);
    this.totalMs += Math.max(0, untilMs - Math.max(fromMs, this.#slowUntilMs));
    this.#slowUntilMs = Math.max(this.#slowUntilMs, untilMs);
  }
}

function alive(port: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const signal = AbortSignal.timeout(GIVE_UP_MS);
  request({ host: '127.0.0.1', port, path: '/livez', signal })
    .on('response', (response) => response.on('error', reject).on('end', resolve).resume())
    .on('error', reject)
    .end();
  return promise;
}
