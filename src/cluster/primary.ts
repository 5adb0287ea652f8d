import { setTimeout as wait } from 'node:timers/promises';
import type { Sql } from 'postgres';
import { Registry } from 'prom-client';
import { type Config, directUrlOf } from '../config.ts';
import { openDatabase } from '../database.ts';
import { Failure } from '../failure.ts';
import { SharedCache } from '../hotels/shared.ts';
import { openAdmin } from '../http/admin.ts';
import { currentGeneration, laterGeneration } from '../invalidation/generation.ts';
import { Invalidator } from '../invalidation/invalidator.ts';
import { Listener } from '../invalidation/listener.ts';
import { toldBy } from '../invalidation/messages.ts';
import { SharedKeys } from '../keys/shared.ts';
import { DeadlineExceeded, Lifecycle, withDeadline } from '../lifecycle.ts';
import { Events } from '../observe/events.ts';
import { watchInstance } from '../observe/instance-metrics.ts';
import { openLog } from '../observe/log.ts';
import { Metrics } from '../observe/metrics.ts';
import { watchProcess } from '../observe/process-metrics.ts';
import { requireSchema } from '../schema.ts';
import type { Told } from '../stores/replica.ts';
import type { SharedStore } from '../stores/shared-store.ts';
import { forbidCoreDumps } from './core-dumps.ts';
import { openRedis } from './open-redis.ts';
import { requireReadOnlyLogin } from './read-only-login.ts';
import { Workers } from './workers.ts';

/** How often the start is tried again while PostgreSQL is away or not migrated. */
const START_AGAIN_MS = 500;
/** How long one attempt may take; by then several others are under way. */
const START_DEADLINE_MS = 3_000;
/** After this time without the first word of an invalidator the workers start all the same. */
const FEED_PATIENCE_MS = 1_000;
/** How long the invalidator waits for Redis before it starts without it. */
const REDIS_PATIENCE_MS = 500;
/** What the workers' own drain may take beyond its deadline. */
const DRAIN_MARGIN_MS = 2_000;
/** npm passes a signal on that the terminal has sent us already: what comes so soon after the first is the same one. */
const SAME_SIGNAL_MS = 500;

/**
 * Runs one instance until a signal ends it: the admin port, the instance's ear for the change feed, its
 * invalidator (active in one instance of all) and the workers. Never returns; exits 0 when all ended in order.
 */
export async function runPrimary(config: Config): Promise<void> {
  const lifecycle = new Lifecycle();
  const events = new Events(openLog(config.LOG_LEVEL, 'primary'));
  const metrics = new Metrics();
  let workers: Workers | undefined;
  watchProcess(metrics.registry, 'primary');
  watchInstance(metrics.registry, config.WORKERS, () => workers?.listening ?? 0);
  let stopping = false;
  let signalledAtMs = -Infinity;

  const stop = async (signal: string) => {
    if (stopping) {
      if (performance.now() - signalledAtMs < SAME_SIGNAL_MS) return;
      workers?.kill();
      process.exit(1);
    }
    stopping = true;
    signalledAtMs = performance.now();
    events.stopping(signal);
    if (workers && workers.listening > 0) await wait(config.DRAIN_WAIT_MS);
    events.stopped(await lifecycle.close());
    process.exit(0);
  };
  process.on('SIGTERM', () => stop('SIGTERM'));
  process.on('SIGINT', () => stop('SIGINT'));

  events.starting({
    workers: config.WORKERS,
    port: config.PORT,
    adminPort: config.ADMIN_PORT,
    redis: config.REDIS_URL !== '',
  });
  if (config.REDIS_URL === '') events.withoutRedis();
  const whyDumps = await forbidCoreDumps();
  if (whyDumps !== undefined) events.coreDumpsPossible(whyDumps);
  const admin = await openAdmin(config.ADMIN_HOST, config.ADMIN_PORT, {
    isReady: () => !stopping && workers !== undefined && workers.listening > 0,
    metrics: () => (workers ? workers.gather(metrics.registry) : metrics.registry.metrics()),
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
  }).catch((error: Error) => {
    throw new Failure(`The admin port cannot be opened: ${error.message}`);
  });
  lifecycle.push('admin port', () => admin.close());

  let generation = await untilDatabaseServes(config, events, () => stopping);
  let told: Told | undefined;
  const { invalidator, listener, redis } = followChanges(config, lifecycle, metrics, events, {
    onMessage: (message) => {
      generation = laterGeneration(generation, message.g);
      told = toldBy(message);
      invalidator.heard(message);
      workers?.tellAll({ type: 'feed', message });
    },
    onReset: () => workers?.tellAll({ type: 'reset' }),
  });
  await redis?.connected(REDIS_PATIENCE_MS);
  invalidator.start();
  const patientUntilMs = performance.now() + FEED_PATIENCE_MS;
  while (!listener.linked && performance.now() < patientUntilMs) await wait(10);

  if (stopping) return;
  workers = new Workers(
    config.WORKERS,
    () => ({ generation, linked: listener.linked, told }),
    metrics,
    events,
  );
  lifecycle.push('workers', () => workers!.stop(config.DRAIN_TIMEOUT_MS + DRAIN_MARGIN_MS), 60_000);
}

/**
 * Waits until PostgreSQL answers with this release's schema. Returns the generation of keys in Redis. It is asked
 * again while earlier attempts still wait: one on a path that is half open would never end, and on a slow one it takes
 * several round trips.
 */
async function untilDatabaseServes(
  config: Config,
  events: Events,
  isStopping: () => boolean,
): Promise<string> {
  const found = Promise.withResolvers<string>();
  let serves = false;
  let told = '';
  const ask = async () => {
    try {
      found.resolve(await askGeneration(config));
      serves = true;
    } catch (error) {
      const { message } = error as Error;
      if (message !== told && !serves) events.notReadyYet(message);
      told = message;
    }
  };
  while (!serves && !isStopping()) {
    void ask();
    await Promise.race([found.promise, wait(START_AGAIN_MS)]);
  }
  return serves ? found.promise : '';
}

/** Throws unless the database has this release's schema and answers within the deadline, as the workers will ask it. */
async function askGeneration(config: Config): Promise<string> {
  const pooled = config.DATABASE_DIRECT_URL !== '';
  const sql = openDatabase(config.DATABASE_URL, 1, {
    kind: 'serve',
    statementTimeoutMs: START_DEADLINE_MS,
    pooled,
  });
  const ask = async () => {
    await requireSchema(sql);
    if (pooled) await requireReadOnlyLogin(sql);
    return (await currentGeneration(sql)).generation;
  };
  try {
    return await withDeadline(ask(), START_DEADLINE_MS);
  } catch (error) {
    if (!(error instanceof DeadlineExceeded)) throw error;
    throw new Error(`PostgreSQL did not answer within ${START_DEADLINE_MS} ms`, { cause: error });
  } finally {
    sql.end({ timeout: 0 }).catch(() => {});
  }
}

function followChanges(
  config: Config,
  lifecycle: Lifecycle,
  metrics: Metrics,
  events: Events,
  hear: Pick<ConstructorParameters<typeof Listener>[0], 'onMessage' | 'onReset'>,
): { invalidator: Invalidator; listener: Listener; redis: SharedStore | undefined } {
  let redis: SharedStore | undefined;
  if (config.REDIS_URL !== '') {
    // the invalidator's writes are large, and nobody waits for them
    redis = openRedis(config.REDIS_URL, Math.max(config.REDIS_TIMEOUT_MS, 500), (open, reason) => {
      metrics.breaker('redis', open);
      events.breaker('redis', open, reason);
    });
    lifecycle.push('Redis', () => redis!.close());
  }
  const sharing = {
    ttlMs: config.REDIS_TTL_S * 1000,
    absentTtlMs: config.ABSENT_TTL_S * 1000,
    onPoison: () => {},
  };
  const open = (purpose: Parameters<typeof openDatabase>[2]): Sql =>
    openDatabase(directUrlOf(config), 1, purpose);

  const invalidator: Invalidator = new Invalidator({
    open: (onClose) => open({ kind: 'invalidate', onClose }),
    redis: redis && {
      redis,
      hotels: new SharedCache(redis, sharing),
      keys: new SharedKeys(redis, sharing),
    },
    lastBeat: () => listener.lastBeat,
    metrics,
    events,
  });
  const listener = new Listener({
    open: () => open({ kind: 'listen' }),
    onDoorbell: (speak) => invalidator.ring(speak),
    events,
    ...hear,
  });
  lifecycle.push('change feed', () => listener.stop());
  lifecycle.push('invalidator', () => invalidator.stop());
  return { invalidator, listener, redis };
}
