import type { Logger } from 'pino';

/** Logs events for operators. Each event has a constant message, a level and fields. */
export class Events {
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  starting(fields: { workers: number; port: number; adminPort: number; redis: boolean }): void {
    this.#log.info(fields, 'starting');
  }
  withoutRedis(): void {
    this.#log.warn('REDIS_URL is not set: running on the local cache and PostgreSQL alone');
  }
  evictionPolicyUnsuitable(policy: string): void {
    this.#log.warn({ policy }, 'Redis eviction policy unsuitable: set maxmemory-policy volatile-lru');
  }
  postgresNotVerified(variable: string, sslmode: string): void {
    this.#log.warn(
      { variable, sslmode },
      'PostgreSQL server not verified: set sslmode=verify-full, or disable',
    );
  }
  coreDumpsPossible(reason: string): void {
    this.#log.warn({ reason }, 'core dumps are enabled; set ulimit -c 0');
  }
  fewDescriptors(limit: number, connections: number): void {
    this.#log.warn({ limit, connections }, 'low limit of open files; raise ulimit -n');
  }
  warmedUp({ hotels, tookMs, end }: { hotels: number; tookMs: number; end: string }): void {
    this.#log.info({ hotels, tookMs: Math.round(tookMs), end }, 'warm-up ended');
  }
  listening(port: number): void {
    this.#log.info({ port }, 'listening');
  }

  addressReloaded(variable: string): void {
    this.#log.info({ variable }, 'address reloaded');
  }
  addressRejected(variable: string, reason: string): void {
    this.#log.error({ variable, reason }, 'address file rejected: the previous address stays in use');
  }
  notReadyYet(reason: string): void {
    this.#log.warn({ reason }, 'dependency not ready, retrying');
  }
  breaker(dependency: string, open: boolean, reason: string): void {
    if (open) this.#log.error({ dependency, reason }, 'circuit breaker opened');
    else this.#log.info({ dependency, reason }, 'circuit breaker closed');
  }
  workerStarted(workerPid: number): void {
    this.#log.info({ workerPid }, 'worker started');
  }
  workerFailed(workerPid: number, reason: string): void {
    this.#log.error({ workerPid, reason }, 'worker failed');
  }
  workerEnded(fields: {
    workerPid: number;
    code: number | null;
    signal: string | null;
    restartInMs: number;
  }): void {
    this.#log.error(fields, 'worker exited');
  }
  invalidator(state: 'active' | 'standby' | 'lost', reason?: string): void {
    this.#log.info({ state, reason }, 'invalidator');
  }
  /**
   * Logs the state of the feed. After a reconnect: `resumed` if no message was missed, `reconnected` if one may have
   * been.
   */
  feed(event: 'connected' | 'resumed' | 'silent' | 'gap' | 'reconnected'): void {
    const isGood = event === 'connected' || event === 'resumed';
    this.#log[isGood ? 'info' : 'warn']({ event }, 'change feed');
  }
  historyChanged(history: string, reason: string): void {
    this.#log.warn({ history, reason }, 'database history changed');
  }
  feedMessageRejected(): void {
    this.#log.warn('change feed message rejected');
  }
  newGeneration(generation: string, reason: string): void {
    this.#log.info({ generation, reason }, 'Redis cache invalidated');
  }
  reconciled(hotels: number, keys: number): void {
    this.#log.warn({ hotels, keys }, 'changes past the triggers corrected');
  }
  notCompared(reason: string): void {
    this.#log.warn({ reason }, 'reconciliation postponed');
  }
  changeLogNotKept(reason: string): void {
    this.#log.warn({ reason }, 'change log upkeep postponed');
  }
  stopping(signal: string): void {
    this.#log.info({ signal }, 'stopping');
  }
  stopped(faults: string[]): void {
    if (faults.length > 0) this.#log.warn({ faults }, 'stopped with errors');
    else this.#log.info('stopped');
  }
  linesDropped(lines: number): void {
    this.#log.error({ lines }, 'log lines dropped');
  }
  fatal(error: unknown): void {
    this.#log.fatal({ err: error }, 'fatal error');
  }
}
