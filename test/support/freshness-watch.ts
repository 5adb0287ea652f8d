import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { FreshnessChecker, type Report } from '../../src/cli/freshness/checker.ts';
import { ServiceClient } from '../../src/cli/freshness/service-client.ts';
import { openDatabase } from '../../src/postgres/connect.ts';
import { promisedMs } from './form.ts';
import { closeAtEnd, fault } from './left-behind.ts';
import type { Service } from './service.ts';
import { stalledIn } from './stall-detector.ts';

const CONNECTIONS = 8;
/** What holds while nothing is broken. */
const PROMISE_MS = promisedMs(1_000);
/** However old answers may be while something is broken: so long after it all is as it was. */
const RECOVERED_MS = 6_000;

/**
 * The checker of `hotel-api check-freshness`, at services of one database, while the tests of a file do their own:
 * `witness = watchFreshness(service, …)` in `beforeAll` is enough. It reads versions in PostgreSQL, past whatever
 * proxy the services go through, and asks every worker; the file fails for each answer that is older than promised.
 */
export class FreshnessWatch {
  readonly #services: Service[];
  readonly #ending = new AbortController();
  readonly #watching: Promise<void>;
  readonly #report: Report = { answers: 0, rejected: 0, changes: 0, lagsMs: [], stale: [] };
  #allowances: { ms: number; untilMs: number }[] = [];

  constructor(services: Service[]) {
    this.#services = services;
    this.#watching = this.#watch();
    closeAtEnd('freshness checker', async () => void (await this.stop()));
  }

  /**
   * The test that runs breaks something: until it is over, and a little longer, answers may be so old (`Infinity`: as
   * long as nobody can be asked), and services may be out of reach.
   */
  allowAge(ms: number): void {
    const allowance = { ms, untilMs: Number.POSITIVE_INFINITY };
    this.#allowances.push(allowance);
    onTestFinished(() => {
      allowance.untilMs = performance.now() + Math.min(ms, RECOVERED_MS);
    });
  }

  /** Ends it; what it found. */
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

  /** True while a test breaks something, and a little longer. */
  get #isDisturbed(): boolean {
    return this.#allowances.some(({ untilMs }) => untilMs > performance.now());
  }

  /** A checker ends when it cannot ask; while something is broken another takes its place. */
  async #watch(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      await this.#check().catch(async (error: Error) => {
        if (this.#ending.signal.aborted) return;
        if (!this.#isDisturbed) fault(`the freshness checker ended: ${error.message}`);
        await sleep(250);
      });
    }
    for (const sentence of this.#report.stale) fault(`an answer was older than promised: ${sentence}`);
    if (this.#report.answers === 0) fault('the freshness checker has compared no answer');
  }

  async #check(): Promise<void> {
    const { database, fullKey } = this.#services[0]!;
    const sql = openDatabase(database.ownerUrl, 2, {
      kind: 'serve',
      statementTimeoutMs: 10_000,
      pooled: false,
    });
    const ear = openDatabase(database.ownerUrl, 1, { kind: 'listen' });
    const askers = this.#services.flatMap(({ url }) =>
      Array.from({ length: CONNECTIONS }, () => new ServiceClient(url, fullKey)),
    );
    // it asks late, and reads late what came in time, when this process stands still
    const promiseMs = () => this.#allowedMs + stalledIn(this.#allowedMs);
    const checker = new FreshnessChecker(sql, ear, askers, promiseMs);
    try {
      await checker.run(this.#ending.signal);
    } finally {
      const { answers, rejected, changes, lagsMs, stale } = checker.report;
      this.#report.answers += answers;
      this.#report.rejected += rejected;
      this.#report.changes += changes;
      this.#report.lagsMs.push(...lagsMs);
      this.#report.stale.push(...stale);
      for (const asker of askers) asker.close();
      await Promise.all([sql.end({ timeout: 1 }), ear.end({ timeout: 1 })]).catch(() => {});
    }
  }
}

export function watchFreshness(...services: Service[]): FreshnessWatch {
  return new FreshnessWatch(services);
}
