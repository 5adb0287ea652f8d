import { readFileSync } from 'node:fs';
import type { Registry } from 'prom-client';
import { CallbackMetric, register, type Sample } from './metric.ts';

/** Sources of a worker's metrics that are read at a scrape. */
export interface WorkerSource {
  pipeline: { readonly inProgress: number; readonly batchesWaiting: number };
  server: { readonly connections: number };
  /** maximum number of client connections of the worker */
  maxConnections: number;
  postgres: { readonly waiting: number; readonly running: number };
  /** limits of each worker */
  limits: { poolSize: number; queueLimit: number };
  /** undefined: the local cache is disabled */
  arena: { stats(): ArenaStats } | undefined;
  /** clients that wait for the first change */
  waiters: { readonly waiting: number };
  collections: CollectionStats;
  feedStatus: { readonly up: boolean };
  /** undefined: there are no replicas */
  replicas: { readonly lagsMs: number[] } | undefined;
}

interface CollectionStats {
  readonly size: number;
  readonly bytes: number;
  readonly maxBytes: number;
  readonly counts: { loads: number; evictions: number; queries: number };
}

interface ArenaStats {
  entries: number;
  absences: number;
  bytes: number;
  maxBytes: number;
  evictions: number;
  puts: number;
}

/**
 * Registers the metrics of the worker with this number. Gauges without the label `worker` are summed over all
 * workers.
 */
export function watchWorker(registry: Registry, worker: string, source: WorkerSource): void {
  const {
    pipeline,
    server,
    maxConnections,
    postgres,
    limits,
    arena,
    collections,
    waiters,
    feedStatus,
    replicas,
  } = source;
  const gauge = (name: string, help: string, read: () => Sample[]) =>
    register(registry, new CallbackMetric(name, help, 'gauge', read));
  const sum = (name: string, help: string, value: () => number) =>
    gauge(name, help, () => [{ labels: {}, value: value() }]);
  sum(
    'hotel_api_requests_in_progress',
    'Requests whose response is dependency not ready, without those that wait for a change',
    () => pipeline.inProgress - waiters.waiting,
  );
  sum('hotel_api_changes_waiting', 'Requests that wait for a change', () => waiters.waiting);
  sum('hotel_api_batches_waiting', 'Batches in the admission queue', () => pipeline.batchesWaiting);
  sum('hotel_api_connections', 'Open client connections', () => server.connections);
  sum('hotel_api_connections_max', 'Client connections that may be open', () => maxConnections);
  sum(
    'hotel_api_postgres_queries_waiting',
    'Queries that wait for a connection to PostgreSQL',
    () => postgres.waiting,
  );
  sum('hotel_api_postgres_queries_running', 'Queries in progress at PostgreSQL', () => postgres.running);
  sum('hotel_api_postgres_pool_size', 'Maximum queries in progress at PostgreSQL', () => limits.poolSize);
  sum(
    'hotel_api_postgres_queue_limit',
    'Maximum queries that wait for a connection to PostgreSQL',
    () => limits.queueLimit,
  );
  gauge('hotel_api_change_feed_up', '1 while the worker receives the change feed', () => [
    { labels: { worker }, value: feedStatus.up ? 1 : 0 },
  ]);
  const counter = (name: string, help: string, value: () => number) =>
    register(registry, new CallbackMetric(name, help, 'counter', () => [{ labels: {}, value: value() }]));
  gauge('hotel_api_collections_bytes', 'Memory used for the members of collections', () => [
    { labels: { worker }, value: collections.bytes },
  ]);
  gauge('hotel_api_collections_max_bytes', 'Memory limit for the members of collections', () => [
    { labels: { worker }, value: collections.maxBytes },
  ]);
  gauge('hotel_api_collections_held', 'Collections whose members are in memory or being loaded', () => [
    { labels: { worker }, value: collections.size },
  ]);
  counter(
    'hotel_api_collection_loads_total',
    'Times that the members of a collection were loaded',
    () => collections.counts.loads,
  );
  counter(
    'hotel_api_collection_evictions_total',
    'Times that the members of a collection were evicted to make room for others',
    () => collections.counts.evictions,
  );
  counter(
    'hotel_api_collection_queries_total',
    'Queries for members of collections that were not in memory',
    () => collections.counts.queries,
  );
  if (replicas) {
    gauge(
      'hotel_api_replica_lag_seconds',
      'Time for which a replica has lacked a change that the worker knows of; replica: its position in DATABASE_REPLICA_URLS',
      () => replicas.lagsMs.map((lagMs, i) => ({ labels: { worker, replica: i + 1 }, value: lagMs / 1000 })),
    );
  }
  if (!arena) return;
  gauge('hotel_api_local_cache_bytes', 'Memory used by the local cache', () => [
    { labels: { worker }, value: arena.stats().bytes },
  ]);
  gauge('hotel_api_local_cache_max_bytes', 'Memory limit of the local cache', () => [
    { labels: { worker }, value: arena.stats().maxBytes },
  ]);
  gauge(
    'hotel_api_local_cache_entries',
    'Entries of the local cache; absence: an id known not to exist',
    () => {
      const { entries, absences } = arena.stats();
      return [
        { labels: { worker, kind: 'hotel' }, value: entries },
        { labels: { worker, kind: 'absence' }, value: absences },
      ];
    },
  );
  counter(
    'hotel_api_local_cache_stores_total',
    'Hotels stored in local caches, refreshes included',
    () => arena.stats().puts,
  );
  counter(
    'hotel_api_local_cache_evictions_total',
    'Hotels evicted from local caches',
    () => arena.stats().evictions,
  );
}

/** Registers the metrics of the primary. `workers`: how many are configured, and how many accept connections. */
export function watchInstance(registry: Registry, wanted: number, listening: () => number): void {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  const gauge = (name: string, help: string, labels: Sample['labels'], value: () => number) =>
    register(registry, new CallbackMetric(name, help, 'gauge', () => [{ labels, value: value() }]));
  gauge(
    'hotel_api_build_info',
    'Always 1; the labels name the versions',
    { version, node_version: process.versions.node },
    () => 1,
  );
  gauge('hotel_api_workers', 'Workers that accept connections', {}, listening);
  gauge('hotel_api_workers_wanted', 'Configured number of workers', {}, () => wanted);
}
