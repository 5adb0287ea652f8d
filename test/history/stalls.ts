import { request } from 'node:http';
import type { Served, System } from './system.ts';

const EVERY_MS = 100;
/** What takes longer than this takes the processors of a machine that has others to do. */
const SLOW_MS = 150;
const GIVE_UP_MS = 15_000;

/**
 * Watches whether the machine keeps up: promises are those of a service that gets processors. Where this process, a
 * primary, PostgreSQL or Redis needs long for next to nothing, the bounds are those of a disturbance.
 */
export class Stalls {
  readonly #system: System;
  readonly #busy = new Set<string>();
  readonly #ticking: NodeJS.Timeout;
  #lastMs = performance.now();
  #slowUntilMs = 0;
  /** for how long bounds were wider */
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

  /** One at a time; what fails says nothing about time. */
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
