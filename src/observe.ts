import { monitorEventLoopDelay } from 'node:perf_hooks';
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { Counter, Gauge, Registry } from 'prom-client';
import { RequestHistogram } from './request-histogram.ts';

const TIERS = ['local', 'redis', 'postgres'] as const;
const ANSWERS = ['hit', 'absent', 'miss'] as const;
export type Tier = (typeof TIERS)[number];
/** What a tier says of a key: it has the hotel, it knows that there is none, it does not know. */
export type Answer = (typeof ANSWERS)[number];

/** Every metric that a process exports. Labels are closed sets: no id, key or URL ever is one. */
export class Metrics {
  readonly registry = new Registry();
  readonly requests = new RequestHistogram(
    'hotel_api_request_duration_seconds',
    'Time from the request line to the answer, by route, method and status',
  );
  readonly #keyLookups = this.#counter<'tier'>(
    'hotel_api_key_lookups_total',
    'API keys looked up outside the worker',
    ['tier'],
  );
  readonly #poison = this.#counter(
    'hotel_api_redis_unsound_values_total',
    'Values in Redis that were no sound entry',
    [],
  );
  readonly #unhandled = this.#counter(
    'hotel_api_internal_errors_total',
    'Answers 500: what nobody foresaw',
    [],
  );
  readonly #unavailable = this.#counter('hotel_api_unavailable_total', 'Answers 503', []);
  readonly #rateLimited = this.#counter(
    'hotel_api_rate_limited_total',
    'Answers 429: the key had had what its rate limit allows',
    [],
  );
  readonly #guessesRefused = this.#counter(
    'hotel_api_key_guesses_refused_total',
    'Answers 503: a key that nobody knows was not looked up, there were too many such',
    [],
  );
  readonly #aborted = this.#counter(
    'hotel_api_requests_aborted_total',
    'Requests whose client went away before the answer',
    [],
  );
  readonly #breaker = this.#gauge<'dependency'>(
    'hotel_api_breaker_open',
    'Processes that have given a dependency up',
    ['dependency'],
  );
  readonly #changes = this.#counter<'kind'>(
    'hotel_api_changes_total',
    'Changes the invalidator took off the queue, by kind',
    ['kind'],
  );
  readonly #reconciled = this.#counter<'kind'>(
    'hotel_api_reconciled_total',
    'Values in Redis that differed from PostgreSQL and were corrected, by kind: changes that went round the triggers',
    ['kind'],
  );
  readonly #resets = this.#counter(
    'hotel_api_feed_resets_total',
    'Times a process could not tell what it had missed',
    [],
  );
  readonly #leader = this.#gauge(
    'hotel_api_invalidator_active',
    '1 in the instance whose invalidator is the active one',
    [],
  );
  readonly #restarts = this.#counter(
    'hotel_api_worker_restarts_total',
    'Workers that ended and were replaced',
    [],
  );

  /** by tier and answer: a plain array, for a labelled counter costs a third of a microsecond a request */
  readonly #cacheAnswers = new Float64Array(TIERS.length * ANSWERS.length);

  constructor() {
    this.registry.registerMetric(this.requests as never);
    const counts = this.#cacheAnswers;
    new Counter({
      name: 'hotel_api_cache_answers_total',
      help: 'Keys looked up, by tier and answer',
      labelNames: ['tier', 'answer'],
      registers: [this.registry],
      collect() {
        this.reset();
        for (const [i, tier] of TIERS.entries()) {
          for (const [j, answer] of ANSWERS.entries())
            this.inc({ tier, answer }, counts[i * ANSWERS.length + j]!);
        }
      },
    });
  }

  /** Adds what every worker exports: requests in progress, queue lengths, event-loop delay. */
  watch(gauges: { name: string; help: string; read: () => number }[]): void {
    for (const { name, help, read } of gauges) {
      new Gauge({
        name,
        help,
        registers: [this.registry],
        collect() {
          this.set(read());
        },
      });
    }
    const delay = monitorEventLoopDelay({ resolution: 10 });
    delay.enable();
    new Gauge({
      name: 'hotel_api_event_loop_delay_p99_seconds',
      help: 'Event-loop delay since the last scrape, 99th percentile of the worst worker',
      registers: [this.registry],
      aggregator: 'max',
      collect() {
        this.set(delay.count === 0 ? 0 : delay.percentile(99) / 1e9);
        delay.reset();
      },
    });
  }

  cacheAnswers(tier: Tier, answer: Answer, keys: number): void {
    this.#cacheAnswers[TIERS.indexOf(tier) * ANSWERS.length + ANSWERS.indexOf(answer)]! += keys;
  }

  keyLookup(tier: 'redis' | 'postgres'): void {
    this.#keyLookups.inc({ tier });
  }

  unsoundValue(): void {
    this.#poison.inc();
  }

  internalError(): void {
    this.#unhandled.inc();
  }

  unavailable(): void {
    this.#unavailable.inc();
  }

  rateLimited(): void {
    this.#rateLimited.inc();
  }

  guessRefused(): void {
    this.#guessesRefused.inc();
  }

  aborted(): void {
    this.#aborted.inc();
  }

  breaker(dependency: 'redis' | 'postgres', open: boolean): void {
    this.#breaker.set({ dependency }, open ? 1 : 0);
  }

  changes(kind: string, count: number): void {
    this.#changes.inc({ kind }, count);
  }

  reconciled(kind: 'hotels' | 'keys', count: number): void {
    this.#reconciled.inc({ kind }, count);
  }

  feedReset(): void {
    this.#resets.inc();
  }

  invalidatorActive(active: boolean): void {
    this.#leader.set(active ? 1 : 0);
  }

  workerRestarted(): void {
    this.#restarts.inc();
  }

  #counter<Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label> {
    return new Counter({ name, help, labelNames, registers: [this.registry] });
  }

  #gauge<Label extends string>(name: string, help: string, labelNames: Label[]): Gauge<Label> {
    return new Gauge({ name, help, labelNames, registers: [this.registry] });
  }
}

/** A logger of JSON lines on standard output; readable for people where that is a terminal. */
export function openLog(level: string, role: string): Logger {
  const options = {
    level,
    base: { role, pid: process.pid },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
  };
  if (process.stdout.isTTY) {
    return pino({
      ...options,
      formatters: {},
      transport: { target: 'pino-pretty', options: { ignore: 'pid,hostname' } },
    });
  }
  return pino(options, pino.destination({ dest: 1, sync: true }) as DestinationStream);
}

/** What happened, for operators: every event that is logged, with its level and its fields. */
export class Events {
  readonly #log: Logger;
  readonly #logsRequests: boolean;

  constructor(log: Logger) {
    this.#log = log;
    this.#logsRequests = log.isLevelEnabled('debug');
  }

  starting(fields: { workers: number; port: number; adminPort: number; redis: boolean }): void {
    this.#log.info(fields, 'starting');
  }
  withoutRedis(): void {
    this.#log.warn('REDIS_URL is not set: running on the local cache and PostgreSQL alone');
  }
  coreDumpsPossible(reason: string): void {
    this.#log.warn({ reason }, 'core files are possible, and would hold passwords and keys: set ulimit -c 0');
  }
  listening(port: number): void {
    this.#log.info({ port }, 'listening');
  }

  notReadyYet(reason: string): void {
    this.#log.warn({ reason }, 'not ready yet, trying again');
  }
  breaker(dependency: string, open: boolean, reason: string): void {
    if (open) this.#log.error({ dependency, reason }, 'given up for the moment');
    else this.#log.info({ dependency, reason }, 'used again');
  }
  requestFailed(
    fields: { requestId: string; route: string; keyId: string | undefined },
    error: unknown,
  ): void {
    this.#log.error({ ...fields, status: 500, err: error }, 'request failed');
  }
  requestUnavailable(fields: {
    requestId: string;
    route: string;
    keyId: string | undefined;
    reason: string;
  }): void {
    this.#log.warn({ ...fields, status: 503 }, 'request refused');
  }
  request(
    requestId: string,
    route: string,
    status: number,
    keyId: string | undefined,
    seconds: number,
  ): void {
    if (this.#logsRequests) this.#log.debug({ requestId, route, status, keyId, seconds }, 'request');
  }
  workerStarted(workerPid: number): void {
    this.#log.info({ workerPid }, 'worker started');
  }
  workerFailed(workerPid: number, reason: string): void {
    this.#log.error({ workerPid, reason }, 'worker cannot go on');
  }
  workerEnded(fields: {
    workerPid: number;
    code: number | null;
    signal: string | null;
    restartInMs: number;
  }): void {
    this.#log.error(fields, 'worker ended, another is started');
  }
  invalidator(state: 'active' | 'standby' | 'lost', reason?: string): void {
    this.#log.info({ state, reason }, 'invalidator');
  }
  feed(event: 'heard' | 'silent' | 'gap' | 'reconnected'): void {
    this.#log[event === 'heard' ? 'info' : 'warn']({ event }, 'change feed');
  }
  newGeneration(generation: string, reason: string): void {
    this.#log.info({ generation, reason }, 'what Redis holds is given up');
  }
  reconciled(hotels: number, keys: number): void {
    this.#log.warn({ hotels, keys }, 'changes that went round the triggers were found and corrected');
  }
  stopping(signal: string): void {
    this.#log.info({ signal }, 'stopping');
  }
  stopped(faults: string[]): void {
    if (faults.length > 0) this.#log.warn({ faults }, 'stopped, not all in order');
    else this.#log.info('stopped');
  }
  fatal(error: unknown): void {
    this.#log.fatal({ err: error }, 'cannot go on');
  }
}
