import type { Logger } from 'pino';

/** Logs events for operators. Each event has a constant message, a level and fields. */
export class Events {
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  readonly starting = (fields: { workers: number; port: number; adminPort: number; redis: boolean }) =>
    this.#log.info(fields, 'starting');
  readonly withoutRedis = () =>
    this.#log.warn('REDIS_URL is not set: running on the local cache and PostgreSQL alone');
  readonly coreDumpsPossible = (reason: string) =>
    this.#log.warn({ reason }, 'core dumps are enabled; set ulimit -c 0');
  readonly fewDescriptors = (limit: number, connections: number) =>
    this.#log.warn({ limit, connections }, 'low limit of open files; raise ulimit -n');
  readonly warmedUp = ([hotels, end]: readonly [hotels: number, end: string]) =>
    this.#log[end.startsWith('failed') ? 'warn' : 'info']({ hotels, end }, 'warm-up ended');
  readonly listening = (port: number) => this.#log.info({ port }, 'listening');

  readonly addressReloaded = (variable: string) => this.#log.info({ variable }, 'address reloaded');
  readonly addressRejected = (variable: string, reason: string) =>
    this.#log.error({ variable, reason }, 'address file rejected: the previous address stays in use');
  readonly notReadyYet = (reason: string) => this.#log.warn({ reason }, 'dependency not ready, retrying');
  breaker(dependency: string, open: boolean, reason: string): void {
    if (open) this.#log.error({ dependency, reason }, 'circuit breaker opened');
    else this.#log.info({ dependency, reason }, 'circuit breaker closed');
  }
  /** Never logs a statement, which can contain data. */
  readonly tableLocked = (locks: object[]) => this.#log.error({ locks }, 'table locked');
  readonly usageNotRecorded = (reason: string) => this.#log.warn({ reason }, 'use of keys not recorded');
  readonly workerFailed = (workerPid: number | undefined, reason: string) =>
    this.#log.error({ workerPid, reason }, 'worker failed');
  readonly workerEnded = (fields: {
    workerPid: number | undefined;
    code: number | null;
    signal: string | null;
    restartInMs: number;
  }) => this.#log.error(fields, 'worker exited');
  readonly logFollowed = () => this.#log.info('log followed');
  readonly logNotFollowed = (reason: string) => this.#log.warn({ reason }, 'log cannot be followed');
  readonly historyChanged = (history: string) => this.#log.warn({ history }, 'database history changed');
  readonly stopping = (signal: string) => this.#log.info({ signal }, 'stopping');
  stopped(faults: string[]): void {
    if (faults.length > 0) this.#log.warn({ faults }, 'stopped with errors');
    else this.#log.info('stopped');
  }
  readonly linesDropped = (lines: number) => this.#log.error({ lines }, 'log lines dropped');
  readonly fatal = (error: unknown) => this.#log.fatal({ err: error }, 'fatal error');
}
