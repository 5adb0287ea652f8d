import { Registry } from 'prom-client';
import { REJECTIONS, type Rejection } from '../errors.ts';
import { UNLOGGED, type Unlogged } from './access-log.ts';
import { type ClosedLabel, Counter } from './counter.ts';
import { Histogram } from './histogram.ts';
import { LookupCounter } from './lookup-counter.ts';
import { CallbackMetric, register } from './metric.ts';
import { HTTP_ROUTES, RequestHistogram, ROUTES, type Route } from './request-histogram.ts';

const DEPENDENCIES = ['redis', 'postgres', 'postgres_replica'] as const;
const REPLICA_READS = ['answered', 'behind', 'failed', 'left_alone'] as const;
const CHANGES = ['hotels', 'keys', 'members', 'truncated'] as const;
const OUTCOMES = ['answered', 'failed'] as const;
const CALL_BOUNDS = [2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1, 2.5] as const;
const LAG_BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30] as const;

export type Dependency = (typeof DEPENDENCIES)[number];

/**
 * Holds the counters of every process. Labels are closed sets: no id, key or URL is a label value. Values read at a
 * scrape are in process-metrics.ts and instance-metrics.ts.
 */
export class Metrics {
  readonly registry = new Registry();
  readonly requests = register(
    this.registry,
    new RequestHistogram(
      'hotel_api_request_duration_seconds',
      'Time from the end of the request head until the response is ready, not sent',
    ),
  );
  readonly #received = this.#counter(
    'hotel_api_request_body_bytes_total',
    'Bytes of request bodies received',
    ['http_route', Object.values(HTTP_ROUTES)],
  );
  readonly #aborted = this.#counter(
    'hotel_api_requests_aborted_total',
    'Requests that ended without a response: the client disconnected, or the request must not be answered',
  );
  readonly #connectionsAged = this.#counter(
    'hotel_api_connections_aged_total',
    'Answers that told a client to close its connection, because of CONNECTION_MAX_AGE_S',
  );
  readonly #connectionsRejected = this.#counter(
    'hotel_api_connections_rejected_total',
    'Client connections closed at once, because the descriptors left are kept in reserve',
  );
  readonly #rejectedRequests = this.#counter(
    'hotel_api_requests_rejected_total',
    'Requests rejected to protect the service, or because a dependency is unavailable',
    ['reason', REJECTIONS],
  );
  readonly cacheAnswers = register(
    this.registry,
    new LookupCounter('hotel_api_cache_answers_total', 'Hotels looked up; absent: known not to exist'),
  );
  readonly keyLookups = register(
    this.registry,
    new LookupCounter('hotel_api_key_lookups_total', 'API keys looked up; absent: the key is rejected'),
  );
  readonly #invalidValues = this.#counter(
    'hotel_api_redis_invalid_values_total',
    'Corrupt values found in Redis; they are removed and read again from PostgreSQL',
  );
  readonly #calls = register(
    this.registry,
    new Histogram(
      'hotel_api_dependency_duration_seconds',
      'Time of Redis commands and PostgreSQL queries, without their wait for a connection',
      CALL_BOUNDS,
      (place) => ({ dependency: DEPENDENCIES[place >> 1]!, outcome: OUTCOMES[place & 1]! }),
    ),
  );
  readonly #redisInvalidations = this.#counter(
    'hotel_api_breaker_openings_total',
    'Times that the circuit breaker of a dependency opened in a process',
    ['dependency', DEPENDENCIES],
  );
  readonly #open = { redis: 0, postgres: 0, postgres_replica: 0 };
  readonly #replicaReads = this.#counter(
    'hotel_api_replica_reads_total',
    'Queries that replicas may answer; all outcomes but answered went to the primary',
    ['outcome', REPLICA_READS],
  );
  readonly #changes = this.#counter(
    'hotel_api_changes_total',
    'Changes that the invalidator took off the queue',
    ['kind', CHANGES],
  );
  readonly #lag = register(
    this.registry,
    new Histogram(
      'hotel_api_freshness_lag_seconds',
      'Upper bound of the time from a commit until the workers are notified; the oldest change of each delivery',
      LAG_BOUNDS,
      () => ({}),
    ),
  );
  readonly #reconciled = this.#counter(
    'hotel_api_reconciled_total',
    'Values in Redis that differed from PostgreSQL and were corrected: changes that bypassed the triggers',
    ['kind', ['hotels', 'keys'] as const],
  );
  readonly #pruned = this.#counter(
    'hotel_api_change_log_pruned_total',
    'Rows deleted from the change log because they were more than 31 days old, or from before a TRUNCATE',
  );
  readonly #generations = this.#counter(
    'hotel_api_redis_generations_total',
    'Generations begun because Redis may lack a change; all older values in Redis are invalid',
  );
  readonly #resets = this.#counter(
    'hotel_api_feed_resets_total',
    'Times that a worker marked its copies stale, because it may have missed a change',
  );
  readonly #histories = this.#counter(
    'hotel_api_history_changes_total',
    'Times an instance found another history in the database and cleared its caches',
  );
  readonly #rejected = this.#counter(
    'hotel_api_feed_messages_rejected_total',
    'Messages of the change feed that the service did not sign, or that were sent before',
  );
  #leads = 0;
  readonly #restarts = this.#counter(
    'hotel_api_worker_restarts_total',
    'Workers that ended and were replaced',
  );
  readonly #unlogged = this.#counter(
    'hotel_api_log_lines_suppressed_total',
    'Log lines on requests that were dropped by the limit per second',
    ['kind', UNLOGGED],
  );

  constructor() {
    for (let place = 0; place < DEPENDENCIES.length * OUTCOMES.length; place++) this.#calls.open(place);
    this.#lag.open(0);
    register(
      this.registry,
      new CallbackMetric(
        'hotel_api_response_body_bytes_total',
        'Bytes of response bodies sent, after compression',
        'counter',
        () =>
          ROUTES.map((route) => ({
            labels: { http_route: HTTP_ROUTES[route] },
            value: this.requests.sentBytes(route),
          })),
      ),
    );
    register(
      this.registry,
      new CallbackMetric(
        'hotel_api_breaker_open',
        'Processes whose circuit breaker for the dependency is open; each replica counts',
        'gauge',
        () => DEPENDENCIES.map((dependency) => ({ labels: { dependency }, value: this.#open[dependency] })),
      ),
    );
    register(
      this.registry,
      new CallbackMetric(
        'hotel_api_invalidator_active',
        '1 in the instance with the active invalidator',
        'gauge',
        () => [{ labels: {}, value: this.#leads }],
      ),
    );
  }

  received(route: Route, bytes: number): void {
    this.#received.add(bytes, HTTP_ROUTES[route]);
  }

  aborted(): void {
    this.#aborted.add(1);
  }

  /** Counts a rejected request. */
  rejected(reason: Rejection): void {
    this.#rejectedRequests.add(1, reason);
  }

  connectionAged(): void {
    this.#connectionsAged.add(1);
  }

  connectionRejected(): void {
    this.#connectionsRejected.add(1);
  }

  invalidValue(): void {
    this.#invalidValues.add(1);
  }

  /** Records a finished command or query. */
  called(dependency: Dependency, seconds: number, succeeded: boolean): void {
    this.#calls.count(DEPENDENCIES.indexOf(dependency) * OUTCOMES.length + (succeeded ? 0 : 1), seconds);
  }

  breaker(dependency: Dependency, open: boolean): void {
    // each replica has a circuit breaker of its own
    this.#open[dependency] += open ? 1 : -1;
    if (open) this.#redisInvalidations.add(1, dependency);
  }

  replicaRead(outcome: (typeof REPLICA_READS)[number]): void {
    this.#replicaReads.add(1, outcome);
  }

  changes(kind: (typeof CHANGES)[number], count: number): void {
    this.#changes.add(count, kind);
  }

  freshnessLag(seconds: number): void {
    this.#lag.count(0, seconds);
  }

  reconciled(kind: 'hotels' | 'keys', count: number): void {
    this.#reconciled.add(count, kind);
  }

  changeLogPruned(rows: number): void {
    this.#pruned.add(rows);
  }

  redisInvalidated(): void {
    this.#generations.add(1);
  }

  feedReset(): void {
    this.#resets.add(1);
  }

  historyChanged(): void {
    this.#histories.add(1);
  }

  feedMessageRejected(): void {
    this.#rejected.add(1);
  }

  invalidatorActive(active: boolean): void {
    this.#leads = active ? 1 : 0;
  }

  workerRestarted(): void {
    this.#restarts.add(1);
  }

  lineSuppressed(kind: Unlogged): void {
    this.#unlogged.add(1, kind);
  }

  #counter<Value extends string = never>(
    name: string,
    help: string,
    label?: ClosedLabel<Value>,
  ): Counter<Value> {
    return register(this.registry, new Counter(name, help, label));
  }
}
