import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { onTick } from '../lib/clock.ts';

/* Metrics that are read at a scrape: of each process, of a worker and of the instance. */

type Labels = Record<string, string | number>;
export const NO_LABELS: Labels = {};
/** Metrics by name: what they are, and their value, or a value for each set of labels. */
type Sources = Record<string, [help: string, read: () => number | Iterable<[Labels, number]>]>;

/**
 * Registers metrics of one kind that are read at a scrape. `labels` are those of single values; of several values, each has
 * labels of the same names.
 */
export function readAtScrape(
  registry: Registry,
  kind: typeof Counter | typeof Gauge,
  labels: Labels,
  sources: Sources,
): void {
  for (const [name, [help, read]] of Object.entries(sources))
    new kind({
      name,
      help,
      labelNames: Object.keys(labels),
      registers: [registry],
      collect() {
        const values = read();
        this.reset();
        for (const [named, value] of typeof values === 'number' ? [[labels, values] as const] : values)
          this.inc(named, value);
      },
    });
}

const DELAY_BOUNDS = [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1, 2];
/**
 * Metrics of the event loop by prom-client, which are left out. Its delays contain the interval of sampling, and cover the
 * time since the last scrape, whichever Prometheus sent it. Its utilization lacks the label of the process.
 */
const OF_LOOP = /^nodejs_eventloop_/;
/** Interval of their samples, each of which would wake an idle process. */
const NEVER_MS = 2 ** 31 - 1;

/**
 * Registers the event-loop metrics of a process. `worker`: its number from 1, which a replacement keeps, or `primary`. The
 * rate of the active seconds is the utilisation of the loop. Returns a function that reads all metrics of the process: those
 * of the registry, and `process_*` and `nodejs_*` of prom-client, as dashboards of the community know them. These are read for a
 * scrape alone: some list files of /proc.
 */
export function watchProcess(registry: Registry, worker: string): () => Promise<object[]> {
  const ofWorker = { worker };
  readAtScrape(registry, Counter, ofWorker, {
    hotel_api_event_loop_active_seconds_total: [
      'Time that the event loop was busy',
      () => performance.eventLoopUtilization().active / 1000,
    ],
  });
  const delay = new Histogram({
    name: 'hotel_api_event_loop_delay_seconds',
    help: 'Delay of timers on the event loop',
    labelNames: ['worker'],
    buckets: DELAY_BOUNDS,
    registers: [registry],
  });
  delay.zero({ worker });
  onTick((lateMs) => delay.observe({ worker }, lateMs / 1000));
  const defaults = new Registry();
  collectDefaultMetrics({
    register: defaults,
    labels: { worker },
    eventLoopMonitoringPrecision: NEVER_MS,
    eventLoopUtilizationTimeout: NEVER_MS,
  });
  return async () => {
    const own = await registry.getMetricsAsJSON();
    const usual = (await defaults.getMetricsAsJSON()).filter(({ name }) => !OF_LOOP.test(name));
    // the processes differ in their label: none of the series is omitted or averaged
    return [...own, ...usual.map((metric) => ({ ...metric, aggregator: 'sum' }))];
  };
}

/** Sources of a worker's metrics that are read at a scrape. */
interface WorkerSource {
  pipeline: { readonly inProgress: number };
  server: { readonly connections: number };
  maxConnections: number;
  postgres: { readonly waiting: number; readonly running: number };
  limits: { poolSize: number; queueLimit: number };
  /** undefined: the local cache is disabled */
  arena: { stats(): ArenaStats } | undefined;
  /** clients that wait for the first change */
  waiters: { readonly waiting: number };
  collections: { readonly queries: number };
  freshness: { isCurrent(): boolean };
  /** for each replica, the time for which it has been behind */
  origin: { readonly lagsMs: number[] };
}

type ArenaStats = Record<'entries' | 'absences' | 'bytes' | 'maxBytes' | 'evictions' | 'puts', number>;

/**
 * Registers the metrics of the worker with this number. Gauges without the label `worker` are summed over all
 * workers.
 */
export function watchWorker(registry: Registry, worker: string, source: WorkerSource): void {
  const { pipeline, server, postgres, limits, arena, collections, waiters, origin } = source;
  const ofWorker = { worker };
  const ofReplica = { worker, replica: '' };
  const ofKind = { worker, kind: '' };
  readAtScrape(registry, Gauge, NO_LABELS, {
    hotel_api_requests_in_progress: [
      'Requests whose response is not ready, without those that wait for a change',
      () => pipeline.inProgress - waiters.waiting,
    ],
    hotel_api_changes_waiting: ['Requests that wait for a change', () => waiters.waiting],
    hotel_api_connections: ['Open client connections', () => server.connections],
    hotel_api_connections_max: ['Client connections that may be open', () => source.maxConnections],
    hotel_api_postgres_queries_waiting: [
      'Queries that wait for a connection to PostgreSQL, without those to replicas',
      () => postgres.waiting,
    ],
    hotel_api_postgres_queries_running: [
      'Queries in progress at PostgreSQL, without those at replicas',
      () => postgres.running,
    ],
    hotel_api_postgres_pool_size: ['Maximum queries in progress at PostgreSQL', () => limits.poolSize],
    hotel_api_postgres_queue_limit: [
      'Queries that may wait for a connection to PostgreSQL; up to twice as many if they are of several API keys',
      () => limits.queueLimit,
    ],
  });
  readAtScrape(registry, Gauge, ofWorker, {
    hotel_api_log_current: [
      '1 while the worker has applied everything that committed more than 1.5 s ago',
      () => Number(source.freshness.isCurrent()),
    ],
  });
  readAtScrape(registry, Counter, NO_LABELS, {
    hotel_api_collection_queries_total: [
      'Queries for hotels of collections whose members were not in memory, or might be outdated there',
      () => collections.queries,
    ],
  });
  if (origin.lagsMs.length > 0) {
    readAtScrape(registry, Gauge, ofReplica, {
      hotel_api_replica_lag_seconds: [
        'Time for which a replica has lacked a change that the worker knows of, or could not be read; replica: its position in DATABASE_REPLICA_URLS',
        () => origin.lagsMs.map((lagMs, i) => [{ worker, replica: i + 1 }, lagMs / 1000]),
      ],
    });
  }
  if (!arena) return;
  readAtScrape(registry, Gauge, ofWorker, {
    hotel_api_local_cache_bytes: ['Memory used by the local cache', () => arena.stats().bytes],
    hotel_api_local_cache_max_bytes: ['Memory limit of the local cache', () => arena.stats().maxBytes],
  });
  readAtScrape(registry, Gauge, ofKind, {
    hotel_api_local_cache_entries: [
      'Entries of the local cache; absence: an id known not to exist',
      () => {
        const { entries, absences } = arena.stats();
        return [
          [{ worker, kind: 'hotel' }, entries],
          [{ worker, kind: 'absence' }, absences],
        ];
      },
    ],
  });
  readAtScrape(registry, Counter, NO_LABELS, {
    hotel_api_local_cache_stores_total: [
      'Hotels stored in local caches, again or anew',
      () => arena.stats().puts,
    ],
    hotel_api_local_cache_evictions_total: [
      'Hotels, and compressed forms in use, evicted from local caches',
      () => arena.stats().evictions,
    ],
  });
}

/** Registers the metrics of the primary process. `wanted`: configured number of workers; `listening`: how many accept connections. */
export function watchInstance(registry: Registry, wanted: number, listening: () => number): void {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const versions = { version, node_version: process.versions.node };
  readAtScrape(registry, Gauge, versions, {
    hotel_api_build_info: ['Always 1; the labels name the versions', () => 1],
  });
  readAtScrape(registry, Gauge, NO_LABELS, {
    hotel_api_workers: ['Workers that accept connections', listening],
    hotel_api_workers_wanted: ['Configured number of workers', () => wanted],
  });
}
