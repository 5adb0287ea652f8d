import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished } from 'vitest';
import { FreshnessChecker, type Report } from '../../src/cli/freshness/checker.ts';
import { ServiceClient } from '../../src/cli/freshness/service-client.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { closeAtEnd, fault } from './cleanup.ts';
import { promisedMs } from './run-length.ts';
import type { Service } from './service.ts';
import { stalledIn } from './stall-detector.ts';

const CONNECTIONS = 8;
/** Maximum age of responses without a fault. */
const PROMISE_MS = promisedMs(1_000);
/** Time after a fault until that maximum applies again. */
const MAX_RECOVERY_MS = 6_000;

/**
 * Runs the checker of `hotel-api check-freshness` for services of one database during the tests of a file: `freshness
 * = new FreshnessWatch(service, …)` in `beforeAll` suffices. It follows the log in PostgreSQL, bypassing proxies of the
 * services, and sends requests to every worker. The file fails for each stale response.
 */
export class FreshnessWatch {
  readonly #services: Service[];
  readonly #ending = new AbortController();
  readonly #watching: Promise<void>;
  readonly #report: Report = { answers: 0, rejected: 0, changes: 0, lagsMs: [], mirrorLagsMs: [], stale: [] };
  #allowances: { ms: number; untilMs: number }[] = [];

  constructor(...services: Service[]) {
    this.#services = services;
    this.#watching = this.#watch();
    closeAtEnd('freshness checker', async () => void (await this.stop()));
  }

  /**
   * Permits this age of responses during the running test and a little longer (`Infinity`: while PostgreSQL is
   * unavailable), and permits services to be unavailable.
   */
  allowAge(ms: number): void {
    const allowance = { ms, untilMs: Number.POSITIVE_INFINITY };
    this.#allowances.push(allowance);
    onTestFinished(() => {
      allowance.untilMs = performance.now() + Math.min(ms, MAX_RECOVERY_MS);
    });
  }

  /** Stops the checker; returns its findings. */
  async stop(): Promise<Report> {
    this.#ending.abort();
    await this.#watching;
    return this.#report;
  }

  get #allowedMs(): number {
    const nowMs = performance.now();
    this.#allowances = this.#allowances.filter(({ untilMs }) => untilMs > nowMs);
    return Math.max(PROMISE_MS, ...this.#allowances.map(({ ms }) => ms));
  }

  /** True during a fault and a little longer. */
  get #isDisturbed(): boolean {
    return this.#allowances.some(({ untilMs }) => untilMs > performance.now());
  }

  /** Runs checkers, one after the other: during a fault a checker may end, because no service responds. */
  async #watch(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      await this.#check().catch(async (error: Error) => {
        if (this.#ending.signal.aborted) return;
        if (!this.#isDisturbed)
          fault(`the freshness checker ended: ${error.message}; ${this.#circumstances()}`);
        await sleep(250);
      });
    }
    for (const sentence of this.#report.stale) fault(`a response was stale: ${sentence}`);
    if (this.#report.answers === 0) fault('the freshness checker has compared no response');
  }

  /** Describes what may explain a missing response. */
  #circumstances(): string {
    const logs = this.#services.flatMap((service) => service.logs().slice(-5));
    return [
      `${expect.getState().currentTestName ?? 'no test'} is running`,
      `this process stalled ${Math.round(stalledIn(10_000))} ms within 10 s`,
      ...logs,
    ].join('\n');
  }

  async #check(): Promise<void> {
    const { database, fullKey } = this.#services[0]!;
    const sql = openDatabase(database.ownerUrl, 2, {
      kind: 'serve',
      statementTimeoutMs: 10_000,
      pooled: false,
    });
    const clients = this.#services.flatMap(({ url }) =>
      Array.from({ length: CONNECTIONS }, () => new ServiceClient(url, fullKey)),
    );
    // stalls of this process delay requests and the reading of responses
    const promiseMs = () => this.#allowedMs + stalledIn(this.#allowedMs);
    const checker = new FreshnessChecker(sql, clients, promiseMs);
    try {
      await checker.run(this.#ending.signal);
    } finally {
      const { answers, rejected, changes, lagsMs, stale } = checker.report;
      this.#report.answers += answers;
      this.#report.rejected += rejected;
      this.#report.changes += changes;
      this.#report.lagsMs.push(...lagsMs);
      this.#report.stale.push(...stale);
      for (const client of clients) client.close();
      await sql.end({ timeout: 1 }).catch(() => {});
    }
  }
}
