import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { REJECTIONS } from '../errors.ts';
import { monotonicMs } from '../lib/clock.ts';
import { LINE_KINDS } from './access-log.ts';
import { RequestHistogram } from './request-histogram.ts';
import { HTTP_ROUTES, ROUTES } from './routes.ts';
import { NO_LABELS, readAtScrape } from './scraped-metrics.ts';

const TIERS = ['local', 'redis', 'postgres'] as const;
const RESULTS = ['hit', 'absent', 'miss'] as const;
const DEPENDENCIES = ['redis', 'postgres', 'postgres_replica'] as const;
const REPLICA_READS = ['answered', 'behind', 'failed', 'left_alone'] as const;
const OUTCOMES = ['answered', 'failed'] as const;
const CALL_BOUNDS = [2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5];
const LAG_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/**
 * Kinds of rows of the log that caches apply; see sql/005-log.sql. `all_…`: anything of that table may have changed.
 */
export const LOG_KINDS = [
  'hotels',
  'keys',
  'members',
  'collections',
  'all_hotels',
  'all_keys',
  'all_collections',
] as const;
export type LogKind = (typeof LOG_KINDS)[number];

export type Dependency = (typeof DEPENDENCIES)[number];

type Tier = (typeof TIERS)[number];
/** Results of a lookup in a tier: found, known to be absent, unknown. */
type Result = (typeof RESULTS)[number];

/** Lookups by tier and result. */
export type LookupCounts = Record<Tier, Record<Result, number>>;

/** Counter by one label with a closed set of values, so that no request can create a series. */
interface ClosedCounter<Label extends string, Value extends string> {
  inc(labels: Record<Label, Value>, by?: number): void;
}

/**
 * Holds the counters of every process. Labels are closed sets: no id, key or URL is a label value. Every series starts at
 * 0, so that rates see its first increase. Values read at a scrape are in scraped-metrics.ts.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly requests = new RequestHistogram(
    this.registry,
    'hotel_api_request_duration_seconds',
    'Time from the end of the request head, or of a wait that the client asked for, until the response is ready, not sent',
  );
  readonly receivedBytes = this.#closedCounter(
    'hotel_api_request_body_bytes_total',
    'Bytes of request bodies that arrived whole; none of a request that was rejected before',
    { http_route: Object.values(HTTP_ROUTES) },
  );
  readonly aborted = this.#counter(
    'hotel_api_requests_aborted_total',
    'Requests that ended without a whole response: the client disconnected, was too slow, or the request must not be answered',
  );
  readonly connectionsRejected = this.#counter(
    'hotel_api_connections_rejected_total',
    'Client connections closed at once, because the descriptors left are kept in reserve',
  );
  readonly rejected = this.#closedCounter(
    'hotel_api_requests_rejected_total',
    'Requests rejected to protect the service, or because a dependency is unavailable',
    { reason: REJECTIONS },
  );
  readonly cacheLookups = countLookups(
    this.registry,
    'hotel_api_cache_lookups_total',
    'Hotels looked up; absent: known not to exist. Always 0: absent of redis, miss of postgres',
  );
  readonly keyLookups = countLookups(
    this.registry,
    'hotel_api_key_lookups_total',
    'API keys looked up; absent: the key is rejected',
  );
  readonly invalidValues = this.#counter(
    'hotel_api_redis_invalid_values_total',
    'Values in Redis that are corrupt, or of another program or release; the service reads PostgreSQL instead and replaces them. After a change of the form of hotels, Redis is cold once',
  );
  readonly #calls = new Histogram({
    name: 'hotel_api_dependency_duration_seconds',
    help: 'Time of Redis commands and PostgreSQL queries of workers, without their wait for a connection',
    labelNames: ['dependency', 'outcome'],
    buckets: CALL_BOUNDS,
    registers: [this.registry],
  });
  readonly #breakerOpenings = this.#closedCounter(
    'hotel_api_breaker_openings_total',
    'Times that the circuit breaker of a dependency opened in a process',
    { dependency: DEPENDENCIES },
  );
  readonly #breakersOpen = new Gauge({
    name: 'hotel_api_breaker_open',
    help: 'Processes whose circuit breaker for the dependency is open; each replica counts',
    labelNames: ['dependency'],
    registers: [this.registry],
  });
  readonly replicaReads = this.#closedCounter(
    'hotel_api_replica_reads_total',
    'Queries that replicas may answer; all outcomes but answered went to the primary',
    { outcome: REPLICA_READS },
  );
  readonly readsBehind = this.#counter(
    'hotel_api_postgres_reads_behind_total',
    'Queries whose result was rejected because the primary server lacks changes that the worker has applied, or is not the one whose log is followed',
  );
  readonly logChanges = this.#closedCounter(
    'hotel_api_log_changes_total',
    'Changes of the log that the instance applied, by kind; all_…: everything of that kind may have changed',
    { kind: LOG_KINDS },
  );
  readonly logSequenced = this.#counter(
    'hotel_api_log_sequenced_total',
    'Times that the instance called the sequencer, which gives positions to committed changes',
  );
  readonly logFailures = this.#counter(
    'hotel_api_log_poll_failures_total',
    'Polls of the log that failed or were late; another connection is used after each',
  );
  readonly freshnessLag = new Histogram({
    name: 'hotel_api_freshness_lag_seconds',
    help: 'Upper bound of the time from a commit until the instance has its change; at each poll that found one',
    buckets: LAG_BOUNDS,
    registers: [this.registry],
  });
  readonly historyChanges = this.#counter(
    'hotel_api_history_changes_total',
    'Times an instance found another history in the database and cleared its caches',
  );
  readonly #logPosition = this.#gauge(
    'hotel_api_log_position',
    'Last position of the log that the instance has applied',
  );
  readonly #logFloor = this.#gauge(
    'hotel_api_log_window_positions',
    'Positions of the log that the window knows; values in Redis that were read before them are not used',
  );
  /** by `monotonicMs`; undefined: the instance was never current, or this is a worker */
  #currentAsOfMs: number | undefined;
  readonly workerRestarts = this.#counter(
    'hotel_api_worker_restarts_total',
    'Workers that ended and were replaced',
  );
  readonly linesSuppressed = this.#closedCounter(
    'hotel_api_log_lines_suppressed_total',
    'Log lines on requests that were dropped by the limit per second',
    { kind: LINE_KINDS },
  );

  constructor() {
    for (const dependency of DEPENDENCIES) {
      this.#breakersOpen.set({ dependency }, 0);
      for (const outcome of OUTCOMES) this.#calls.zero({ dependency, outcome });
    }
    const { requests, registry } = this;
    readAtScrape(registry, Gauge, NO_LABELS, {
      hotel_api_log_behind_seconds: [
        'Time since which committed changes may be unknown to the instance; 0 before it is first current',
        () => (this.#currentAsOfMs === undefined ? 0 : (monotonicMs() - this.#currentAsOfMs) / 1000),
      ],
    });
    const ofRoute = { http_route: '' };
    readAtScrape(registry, Counter, ofRoute, {
      hotel_api_response_body_bytes_total: [
        'Bytes of response bodies sent, after compression',
        () => ROUTES.map((route) => [{ http_route: HTTP_ROUTES[route] }, requests.sentBytes(route)]),
      ],
    });
  }

  /** Records how far the instance has followed the log. `currentAsOfMs` undefined: as before. */
  logApplied(position: number, floor: number, currentAsOfMs: number | undefined): void {
    this.#logPosition.set(position);
    this.#logFloor.set(Math.max(0, position - floor));
    this.#currentAsOfMs = currentAsOfMs ?? this.#currentAsOfMs;
  }

  /** Records a finished command or query. */
  called(dependency: Dependency, seconds: number, succeeded: boolean): void {
    this.#calls.observe({ dependency, outcome: succeeded ? 'answered' : 'failed' }, seconds);
  }

  /** Records that a circuit breaker opened or closed; each replica has its own. */
  breaker(dependency: Dependency, open: boolean): void {
    this.#breakersOpen.inc({ dependency }, open ? 1 : -1);
    if (open) this.#breakerOpenings.inc({ dependency });
  }

  #counter(name: string, help: string): Counter {
    return new Counter({ name, help, registers: [this.registry] });
  }

  #gauge(name: string, help: string): Gauge {
    return new Gauge({ name, help, registers: [this.registry] });
  }

  #closedCounter<Label extends string, Value extends string>(
    name: string,
    help: string,
    closed: Record<Label, readonly Value[]>,
  ): ClosedCounter<Label, Value> {
    const [label] = Object.keys(closed) as [Label];
    const options = { name, help, labelNames: [label], registers: [this.registry] };
    const counter: ClosedCounter<Label, Value> = new Counter<Label>(options);
    for (const value of closed[label]) counter.inc({ [label]: value } as Record<Label, Value>, 0);
    return counter;
  }
}

/**
 * Returns the counts of a new metric. They are plain fields, because a call with two labels costs a cached request more than its
 * lookup. All nine series are exported from the start.
 */
function countLookups(registry: Registry, name: string, help: string): LookupCounts {
  const zeros = () => ({ hit: 0, absent: 0, miss: 0 });
  const counts: LookupCounts = { local: zeros(), redis: zeros(), postgres: zeros() };
  const read = function* (): Generator<[Record<string, string>, number]> {
    for (const tier of TIERS) for (const result of RESULTS) yield [{ tier, result }, counts[tier][result]];
  };
  readAtScrape(registry, Counter, { tier: '', result: '' }, { [name]: [help, read] });
  return counts;
}
