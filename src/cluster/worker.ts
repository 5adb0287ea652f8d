import { setTimeout as wait } from 'node:timers/promises';
import { type Config, readConfig, replicaUrlsOf } from '../config.ts';
import { openDatabase } from '../database.ts';
import { pagesOf } from '../docs/pages.ts';
import { Listing } from '../hotels/listing.ts';
import { LocalCache } from '../hotels/local.ts';
import { Origin } from '../hotels/origin.ts';
import { Reader } from '../hotels/reader.ts';
import { Relay } from '../hotels/relay/relay.ts';
import { SharedCache } from '../hotels/shared.ts';
import { Gate } from '../http/gate.ts';
import { operationsOn } from '../http/hotels.ts';
import { openServer } from '../http/server.ts';
import { Follower } from '../invalidation/follower.ts';
import { Link } from '../invalidation/link.ts';
import { Keyring } from '../keys/keyring.ts';
import { Limiter } from '../keys/limiter.ts';
import { SharedKeys } from '../keys/shared.ts';
import { Lifecycle } from '../lifecycle.ts';
import { AccessLog } from '../observe/access-log.ts';
import { Events } from '../observe/events.ts';
import { watchWorker } from '../observe/instance-metrics.ts';
import { openLog } from '../observe/log.ts';
import { type Dependency, Metrics } from '../observe/metrics.ts';
import { watchProcess } from '../observe/process-metrics.ts';
import { RecentChanges } from '../recent-changes.ts';
import { Postgres } from '../stores/postgres.ts';
import { Redis } from '../stores/redis.ts';
import { Replica } from '../stores/replica.ts';
import { Replicas } from '../stores/replicas.ts';
import type { ToPrimary, ToWorker } from './messages.ts';
import { openRedis } from './open-redis.ts';

/** How long the worker waits for Redis before it starts without it. */
const REDIS_PATIENCE_MS = 500;
/** Likewise for PostgreSQL: what is cached can be answered without it. */
const POSTGRES_PATIENCE_MS = 300;
const REPORT_EVERY_MS = 1_000;
const FORGET_EVERY_MS = 10_000;
/**
 * Look-ups of keys of which nobody has heard, of all workers together: at most 48 in any second, for a second
 * meets six windows.
 */
const GUESSES = { requests: 8, windowMs: 200 };
/** No key has such an id. */
const GUESSES_ID = 'guesses of keys';
const LEARN_AGAIN_MS = 1_000;
/** How long the worker waits to learn which keys exist before it starts without. */
const KEYS_PATIENCE_MS = 200;
/** A connection on which nothing was asked for this long may be closed when the worker stops. */
const IDLE_MS = 500;

/** Builds one worker from its parts and runs it until the primary says that it is over. */
async function runWorker(config: Config): Promise<void> {
  const lifecycle = new Lifecycle();
  const log = openLog(config.LOG_LEVEL, 'worker');
  const events = new Events(log);
  const metrics = new Metrics();
  const link = new Link();
  const hotelChanges = new RecentChanges();
  const keyChanges = new RecentChanges();
  const forgetting = setInterval(() => {
    hotelChanges.forgetOld();
    keyChanges.forgetOld();
  }, FORGET_EVERY_MS);
  lifecycle.push('recent changes', () => clearInterval(forgetting));
  const onBreaker = (dependency: Dependency) => (open: boolean, reason: string) => {
    metrics.breaker(dependency, open);
    events.breaker(dependency, open, reason);
  };

  const openPostgres = (url: string, dependency: Dependency, timeoutMs: number) =>
    new Postgres(
      () =>
        openDatabase(url, config.DATABASE_POOL_SIZE, {
          kind: 'serve',
          // the server counts too what it waits for this process: the deadline itself is kept here
          statementTimeoutMs: 2 * timeoutMs,
          pooled: config.DATABASE_DIRECT_URL !== '',
        }),
      { connections: config.DATABASE_POOL_SIZE, queueLimit: config.DATABASE_QUEUE_LIMIT, timeoutMs },
      onBreaker(dependency),
      (seconds, succeeded) => metrics.called(dependency, seconds, succeeded),
    );
  const postgres = openPostgres(config.DATABASE_URL, 'postgres', config.DATABASE_TIMEOUT_MS);
  lifecycle.push('PostgreSQL', () => postgres.close());
  // who waited for one in vain asks the primary afterwards
  const replicaTimeoutMs = Math.ceil(config.DATABASE_TIMEOUT_MS / 2);
  const replicaList = replicaUrlsOf(config).map(
    (url) => new Replica(openPostgres(url, 'postgres_replica', replicaTimeoutMs)),
  );
  const replicas =
    replicaList.length === 0
      ? undefined
      : new Replicas(
          postgres,
          replicaList,
          () => link.told,
          (outcome) => metrics.replicaRead(outcome),
        );
  lifecycle.push('replicas', async () => replicas?.close());

  let redis: ReturnType<typeof openRedis> | undefined;
  if (config.REDIS_URL !== '') {
    redis = openRedis(config.REDIS_URL, config.REDIS_TIMEOUT_MS, onBreaker('redis'), (seconds, succeeded) =>
      metrics.called('redis', seconds, succeeded),
    );
    lifecycle.push('Redis', () => redis!.close());
  }
  const sharing = {
    ttlMs: config.REDIS_TTL_S * 1000,
    absentTtlMs: config.ABSENT_TTL_S * 1000,
    onPoison: () => metrics.unsoundValue(),
  };
  const sharedHotels = redis && new SharedCache(redis, sharing);
  const sharedKeys = redis && new SharedKeys(redis, sharing);

  const origin = new Origin(replicas ?? postgres);
  const local =
    config.L1_MAX_BYTES === 0
      ? undefined
      : new LocalCache(config.L1_MAX_BYTES, {
          // while PostgreSQL is known to be away nobody could say more
          isLinked: () => link.up || postgres.breakerOpen,
          absentTtlMs: config.ABSENT_TTL_S * 1000,
          besideRedis: redis !== undefined,
          refresh: (namespace, keys) => void reader.load(namespace, keys).catch(() => {}),
          count: (answer, keys) => metrics.cacheAnswers('local', answer, keys),
        });
  const reader: Reader = new Reader(
    local,
    sharedHotels,
    origin,
    hotelChanges,
    () => link.up,
    (...answer) => metrics.cacheAnswers(...answer),
  );
  const relay =
    // with a cluster the reader does it: a reply of several nodes is not one
    redis instanceof Redis && sharedHotels && !local
      ? new Relay(
          redis,
          sharedHotels,
          () => link.up,
          (...answer) => metrics.cacheAnswers(...answer),
        )
      : undefined;
  const listing = new Listing(origin, () => link.up);
  const limiter = new Limiter(config.WORKERS, (asks) => tell({ type: 'ask', asks }));
  const keyring = new Keyring({
    shared: sharedKeys,
    postgres,
    recent: keyChanges,
    isLinked: () => link.up,
    unknownTtlMs: config.ABSENT_TTL_S * 1000,
    onLookup: (tier, answer) => metrics.keyLookup(tier, answer),
    mayGuess: () => {
      const verdict = limiter.take(GUESSES_ID, GUESSES);
      return verdict instanceof Promise ? verdict.then(({ admitted }) => admitted) : verdict.admitted;
    },
  });
  const follower = new Follower({
    hotelChanges,
    keyChanges,
    reader,
    local,
    relay,
    positions: listing.positions,
    keyring,
    sharedHotels,
    sharedKeys,
    link,
    metrics,
  });
  const accessLog = new AccessLog(log, {
    sample: config.ACCESS_LOG_SAMPLE,
    slowMs: config.ACCESS_LOG_SLOW_MS,
    onSuppressed: (kind) => metrics.lineSuppressed(kind),
  });
  lifecycle.push('access log', () => accessLog.close());
  const gate = new Gate(keyring, limiter, metrics, accessLog);
  const operations = operationsOn(local, relay, reader, listing, config.BASE_PATH);
  const pages = pagesOf({
    basePath: config.BASE_PATH,
    publicUrl: config.PUBLIC_URL,
    supportEmail: config.SUPPORT_EMAIL,
  });
  const server = openServer(operations, gate, pages, config.BASE_PATH);
  lifecycle.push('connections', () => server.close());
  const source = {
    gate,
    server,
    postgres,
    limits: { poolSize: config.DATABASE_POOL_SIZE, queueLimit: config.DATABASE_QUEUE_LIMIT },
    slab: local?.slab,
    link,
    replicas,
  };

  const report = async () => tell({ type: 'metrics', metrics: await metrics.registry.getMetricsAsJSON() });
  const reporting = setInterval(report, REPORT_EVERY_MS);
  lifecycle.push('reports', () => clearInterval(reporting));

  let learning: NodeJS.Timeout | undefined;
  lifecycle.push('learning of keys', () => clearTimeout(learning));
  const learnKeys = () =>
    keyring.learn().catch(() => {
      clearTimeout(learning);
      learning = setTimeout(learnKeys, LEARN_AGAIN_MS);
    });
  const start = async (number: number, generation: string) => {
    watchProcess(metrics.registry, String(number));
    watchWorker(metrics.registry, String(number), source);
    follower.useGeneration(generation);
    await Promise.all([
      redis?.connected(REDIS_PATIENCE_MS),
      postgres.connected(POSTGRES_PATIENCE_MS),
      Promise.race([learnKeys(), wait(KEYS_PATIENCE_MS)]),
      replicas?.connected(POSTGRES_PATIENCE_MS),
    ]);
    await server.listen(config.HOST, config.PORT);
    events.listening(config.PORT);
    tell({ type: 'listening' });
    listing.positions.prepare();
  };
  /** Answers what is under way, then ends the connections, the pools and the process. */
  const drain = async () => {
    gate.closing = true;
    server.stopAccepting();
    const untilMs = performance.now() + config.DRAIN_TIMEOUT_MS;
    let answered = gate.answered;
    let idleSinceMs = performance.now();
    while (server.connections > 0 && performance.now() < untilMs) {
      if (gate.inProgress > 0 || gate.answered !== answered) {
        answered = gate.answered;
        idleSinceMs = performance.now();
      } else if (performance.now() - idleSinceMs > IDLE_MS) break;
      await wait(10);
    }
    await report();
    const faults = await lifecycle.close();
    if (faults.length > 0) events.stopped(faults);
    process.disconnect?.();
    process.exit(0);
  };

  process.on('message', (message: ToWorker) => {
    switch (message.type) {
      case 'start':
        if (message.linked) link.heard(message.told);
        start(message.number, message.generation).catch(fail);
        break;
      case 'feed':
        follower.hear(message.message);
        break;
      case 'reset':
        follower.reset();
        learnKeys();
        break;
      case 'grant':
        limiter.hear(message.grants);
        break;
      case 'report metrics':
        report();
        break;
      case 'drain':
        drain();
        break;
    }
  });
  tell({ type: 'up' });
}

function tell(message: ToPrimary): void {
  if (process.connected) process.send!(message, () => {});
}

function fail(error: unknown): void {
  new Events(openLog('fatal', 'worker')).fatal(error);
  tell({ type: 'failed', reason: error instanceof Error ? error.message : String(error) });
  setTimeout(() => process.exit(1), 50);
}

// signals are for the primary, which tells the workers what to do; without it there is nothing to do
process.on('SIGINT', () => {});
process.on('SIGTERM', () => {});
process.on('disconnect', () => process.exit(0));
process.on('uncaughtException', fail);
process.on('unhandledRejection', fail);
runWorker(readConfig(process.env)).catch(fail);
