import type { Logger } from 'pino';
import { type AddressName, watchAddressFiles } from '../config/address-files.ts';
import { type Config, readVariable } from '../config/config.ts';
import { addressesOf } from '../config/connection-addresses.ts';
import type { OnCall } from '../lib/circuit-breaker.ts';
import { clearTimer, every } from '../lib/clock.ts';
import { Shutdown } from '../lib/shutdown.ts';
import { Events } from '../observability/events.ts';
import { openLog } from '../observability/log.ts';
import { type Dependency, Metrics } from '../observability/metrics.ts';
import { Postgres } from '../postgres/client.ts';
import { openDatabase } from '../postgres/connect.ts';
import { lockReporter } from '../postgres/lock-report.ts';
import { Origin } from '../postgres/origin.ts';
import { Redis } from '../redis/client.ts';
import { RedisCluster } from '../redis/cluster/client.ts';
import { loginOf, type RedisStore } from '../redis/store.ts';

/** Time for running queries when the connections are replaced. */
const RECONNECT_S = 1;

type OriginOptions = ConstructorParameters<typeof Origin>[0];

interface PostgresOptions extends Pick<OriginOptions, 'applied' | 'mayCompareReplicas' | 'onBehind'> {
  /** called whenever the primary server has answered, with the time of `monotonicMs`; replicas do not count */
  onAnswer: (atMs: number) => void;
}

/** Objects that every process of an instance has, and the ways by which it connects. */
export class ProcessContext {
  /** its addresses change with their files */
  readonly config: Config;
  readonly shutdown = new Shutdown();
  readonly metrics = new Metrics();
  readonly log: Logger;
  readonly events: Events;
  readonly #onAddress: { name: AddressName; onChange: () => void }[] = [];

  constructor(config: Config, role: 'primary' | 'worker') {
    this.config = { ...config };
    this.log = openLog(config.LOG_LEVEL, role);
    this.events = new Events(this.log);
    const stop = watchAddressFiles(this.config, (...read) => this.#useAddress(...read));
    this.shutdown.push('address files', stop);
  }

  /** Calls back again and again, until the process stops. */
  repeat(callback: () => void, intervalMs: number): void {
    const timer = every(callback, intervalMs);
    this.shutdown.push('timer', () => clearTimer(timer));
  }

  /**
   * Calls back when the file of this address has changed. Later connections use the present address, and open ones may
   * be renewed. An unusable address is logged, and tried again every second.
   */
  onAddressChange(name: AddressName, onChange: () => void): void {
    this.#onAddress.push({ name, onChange });
  }

  #useAddress(name: AddressName, content: string, isNew: boolean): void {
    const { value, faults } = readVariable(name, content);
    if (faults.length > 0) {
      if (isNew) this.events.addressRejected(name, faults.join('\n'));
      return;
    }
    Object.assign(this.config, { [name]: value });
    this.events.addressReloaded(name);
    for (const each of this.#onAddress) if (each.name === name) each.onChange();
  }

  /** Counts and logs the state of a circuit breaker. */
  onBreaker(dependency: Dependency): (open: boolean, reason: string) => void {
    return (open, reason) => {
      this.metrics.breaker(dependency, open);
      this.events.breaker(dependency, open, reason);
    };
  }
}

/**
 * Connects a worker to PostgreSQL, and to its replicas if there are any. `pooled`: through a pooler. `servers` are all of them;
 * `reconnect` replaces their connections.
 */
export function openPostgres(context: ProcessContext, pooled: boolean, options: PostgresOptions) {
  const { config, shutdown, metrics } = context;
  const { onAnswer, ...log } = options;
  const open = (
    url: () => string,
    dependency: Dependency,
    timeoutMs: number,
    onPrimary: { onAnswer?: PostgresOptions['onAnswer']; onLocked?: () => void } = {},
  ) => {
    const { DATABASE_POOL_SIZE: connections, DATABASE_QUEUE_LIMIT: queueLimit } = config;
    return new Postgres({
      open: () => openDatabase(url(), connections, { kind: 'serve', deadlineMs: timeoutMs, pooled }),
      ...{ connections, queueLimit, timeoutMs },
      onBreaker: context.onBreaker(dependency),
      onCall: (seconds, succeeded) => metrics.called(dependency, seconds, succeeded),
      ...onPrimary,
    });
  };
  const postgres = open(() => config.DATABASE_URL, 'postgres', config.DATABASE_TIMEOUT_MS, {
    onAnswer,
    onLocked: () => void reportLocks(),
  });
  const reportLocks = lockReporter(postgres, context.events.tableLocked);
  // a read that a replica did not answer in time goes to the primary
  const timeoutMs = Math.ceil(config.DATABASE_TIMEOUT_MS / 2);
  // adding or removing a replica needs a restart
  const replicaUrls = () => addressesOf(config.DATABASE_REPLICA_URLS);
  const replicas = replicaUrls().map((url, i) =>
    open(() => replicaUrls()[i] ?? url, 'postgres_replica', timeoutMs),
  );
  const servers = [postgres, ...replicas];
  shutdown.push('PostgreSQL', () => Promise.all(servers.map((server) => server.close())));
  const reconnect = (some = servers) => {
    for (const server of some) server.reconnect(RECONNECT_S);
  };
  context.onAddressChange('DATABASE_URL', () => reconnect([postgres]));
  context.onAddressChange('DATABASE_REPLICA_URLS', () => reconnect(replicas));
  const count: OriginOptions['count'] = (outcome) => metrics.replicaReads.inc({ outcome });
  const origin = new Origin({ primary: postgres, replicas, ...log, count });
  return { postgres, servers, origin, reconnect: () => reconnect() };
}

/**
 * Connects to the Redis of `REDIS_URL`, several addresses of which are nodes of a cluster; returns undefined if it is
 * empty.
 */
export function openRedis(context: ProcessContext, onCall?: OnCall): RedisStore | undefined {
  const { config, shutdown } = context;
  const { REDIS_TIMEOUT_MS: timeoutMs } = config;
  const urls = addressesOf(config.REDIS_URL);
  if (urls.length === 0) return undefined;
  const onBreaker = context.onBreaker('redis');
  const redis =
    urls.length === 1
      ? new Redis(urls[0]!, timeoutMs, onBreaker, onCall)
      : new RedisCluster(urls, timeoutMs, onBreaker, onCall);
  shutdown.push('Redis', () => redis.close());
  context.onAddressChange('REDIS_URL', () => redis.useLogin(loginOf(config.REDIS_URL)));
  return redis;
}
