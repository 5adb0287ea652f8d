import postgres, { type Sql } from 'postgres';
import { ApiKeyCache } from '../../src/auth/api-key-cache.ts';
import { RedisKeyCache } from '../../src/auth/redis-key-cache.ts';
import { HotelReader } from '../../src/cache/hotel-reader.ts';
import { LocalCache } from '../../src/cache/local-cache.ts';
import { Prefill } from '../../src/cache/prefill.ts';
import { RedisHotelCache } from '../../src/cache/redis-hotel-cache.ts';
import { PositionWatch } from '../../src/changes/position-watch.ts';
import { LogApplier } from '../../src/cluster/apply-log.ts';
import { Collections } from '../../src/collections/collections.ts';
import { CollectionRepository } from '../../src/collections/repository.ts';
import { Entry } from '../../src/hotels/entry.ts';
import { LETTER, type Namespace } from '../../src/hotels/namespace.ts';
import { PageIndex } from '../../src/hotels/page-index.ts';
import { HotelRepository } from '../../src/hotels/repository.ts';
import { systemMs } from '../../src/lib/clock.ts';
import { MacSecret } from '../../src/lib/mac.ts';
import type { News } from '../../src/log/follower.ts';
import { Freshness } from '../../src/log/freshness.ts';
import { type HistoryStart, LogConnection } from '../../src/log/log-connection.ts';
import { raiseWindow } from '../../src/log/raise-window.ts';
import type { LogPlace } from '../../src/log/row.ts';
import { Window } from '../../src/log/window.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { Origin } from '../../src/postgres/origin.ts';
import { Redis } from '../../src/redis/client.ts';
import { closeAtEnd } from './cleanup.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from './database.ts';

/** Timeout of `until`, which normally takes moments. */
const UNTIL_MS = 20_000;
const REDIS_CACHE_OPTIONS = { ttlMs: 600_000, absentTtlMs: 60_000, onInvalidValue: () => {} };
/** Prefix of the names in Redis. */
const PREFIX = 'in process';
/** Secret of the values of keys in Redis. */
const KEY_SECRET = new MacSecret();
const METRICS = new Metrics();
/** More rows than a test writes. */
const ALL_ROWS = 1_000_000;

/** Point at which work waits while it is closed. */
class SyncPoint {
  #closed: PromiseWithResolvers<void> | undefined;
  #waiting = 0;

  close(): void {
    this.#closed ??= Promise.withResolvers();
  }

  open(): void {
    this.#closed?.resolve();
    this.#closed = undefined;
  }

  /** Returns the number of waiting calls. */
  get waiting(): number {
    return this.#waiting;
  }

  async pass(): Promise<void> {
    if (!this.#closed) return;
    this.#waiting++;
    await this.#closed.promise;
    this.#waiting--;
  }
}

/** Caches of one worker, with sync points after its reads of PostgreSQL and before its writes to Redis. */
export class InProcessWorker {
  readonly afterQuery = new SyncPoint();
  readonly beforeFill = new SyncPoint();
  readonly reader: HotelReader;
  readonly local: LocalCache;
  readonly apiKeys: ApiKeyCache;
  readonly collectionRepository: CollectionRepository;
  readonly collections: Collections;
  readonly freshness = new Freshness(() => false);
  readonly redisHotels: RedisHotelCache;
  readonly #prefill: Prefill;
  readonly #applier: LogApplier;

  /** It follows the log from this place, and knows the rows before it that `window` contains. */
  constructor(sql: Sql, redis: Redis, { history, ...place }: HistoryStart, window: Window) {
    const redisHotels = new RedisHotelCache(redis, REDIS_CACHE_OPTIONS);
    const redisKeys = new RedisKeyCache(redis, REDIS_CACHE_OPTIONS, KEY_SECRET);
    hold(redisHotels, ['fill', 'rememberAbsent'], this.beforeFill);
    hold(redisKeys, ['fill'], this.beforeFill);
    const applied = { history: '', position: 0 };
    const rows = async (text: string, parameters: never[]) => {
      const found = await sql.unsafe(text, parameters);
      await this.afterQuery.pass();
      return found;
    };
    const origin = new Origin({
      primary: { rows, waiting: 0 } as never,
      replicas: [],
      applied: () => applied,
      isCurrent: () => true,
      onBehind: () => {},
      count: () => {},
    });
    const repository = new HotelRepository(origin, () => applied.history);
    const ownWindow = new Window();
    const { freshness } = this;
    this.redisHotels = redisHotels;
    this.#prefill = new Prefill(repository, redisHotels);
    this.local = new LocalCache(1024 ** 2, {
      freshness,
      absentTtlMs: REDIS_CACHE_OPTIONS.absentTtlMs,
      refresh: () => {},
      counts: { hit: 0, absent: 0, miss: 0 },
    });
    this.apiKeys = new ApiKeyCache({
      ...{ redisCache: redisKeys, origin, freshness, window: ownWindow },
      history: () => applied.history,
      mayServeAnyAge: () => false,
      unknownTtlMs: REDIS_CACHE_OPTIONS.absentTtlMs,
      counts: METRICS.keyLookups.counts,
      mayLookUp: () => true,
    });
    this.collectionRepository = new CollectionRepository(origin);
    this.collections = new Collections({
      repository: this.collectionRepository,
      maxBytes: 16 * 1024 ** 2,
      outsideMs: REDIS_CACHE_OPTIONS.absentTtlMs,
      freshness,
    });
    this.reader = new HotelReader({
      ...{ local: this.local, collections: this.collections, window: ownWindow },
      ...{ redisCache: redisHotels, origin: repository },
      isCurrent: () => freshness.isCurrent(),
      mayServeAnyAge: () => false,
      count: () => {},
    });
    this.#applier = new LogApplier(
      {
        ...{ window: ownWindow, freshness, redisHotels, redisKeys },
        ...{ reader: this.reader, local: this.local, collections: this.collections, apiKeys: this.apiKeys },
        pageIndex: new PageIndex(repository.list, 1024 ** 2),
        logPositions: new PositionWatch(() => true),
      },
      applied,
    );
    this.#applier.start({
      ...{ history, ...place, prefix: PREFIX, isBusy: false, asOfMs: systemMs() },
      window: window.copy(),
    });
    // races are decided by order: no time makes it ask PostgreSQL
    freshness.current(Number.MAX_SAFE_INTEGER);
  }

  receive(news: News): void {
    this.#applier.apply(news);
  }

  /** Stores changed hotels in Redis, as the instance that has sequenced them does. */
  prefill(ids: string[]): void {
    const rest = { position: 0, moves: false, channelIds: [], registryIds: [], collection: null };
    this.#prefill.changed([{ kind: 'hotels', ids, ...rest }]);
  }

  /**
   * Looks up a hotel like a request: in the local cache, then in the other tiers. Returns its name; null if it does
   * not exist.
   */
  async lookUp(namespace: Namespace, key: string): Promise<string | null> {
    const ref = this.local.find(namespace, key);
    if (ref > 0) return nameOf(new Entry(this.local.arena.read(ref)));
    if (ref < 0) return null;
    const [entry] = await this.reader.load(namespace, [key], '');
    return entry ? nameOf(entry) : null;
  }
}

/** Makes these methods of a store wait at a sync point. */
function hold<Store extends object>(
  store: Store,
  methods: (keyof Store & string)[],
  syncPoint: SyncPoint,
): void {
  const methodsOf = store as Record<string, (...values: unknown[]) => Promise<unknown>>;
  for (const method of methods) {
    const original = methodsOf[method]!.bind(store);
    methodsOf[method] = async (...values) => {
      await syncPoint.pass();
      return original(...values);
    };
  }
}

export const nameOf = (entry: Entry): string => JSON.parse(entry.body('full').toString()).name;

/** PostgreSQL, Redis, a follower of the log that works step by step, and the caches of two workers, in this process. */
export class InProcessService {
  readonly sql: Sql;
  readonly database: FreshDatabase;
  readonly redisDatabase: FreshRedis;
  readonly workers: InProcessWorker[] = [];
  /** news that no worker has received */
  readonly announced: News[] = [];
  readonly #redis: Redis;
  readonly #log: LogConnection;
  readonly #start: HistoryStart;
  #place: LogPlace;

  private constructor(
    {
      sql,
      database,
      redisDatabase,
      redis,
      log,
    }: Pick<InProcessService, 'sql' | 'database' | 'redisDatabase'> & {
      redis: Redis;
      log: LogConnection;
    },
    start: HistoryStart,
  ) {
    this.sql = sql;
    this.database = database;
    this.redisDatabase = redisDatabase;
    this.#redis = redis;
    this.#log = log;
    this.#start = start;
    this.#place = start;
  }

  static async start(): Promise<InProcessService> {
    const [database, redisDatabase] = [await freshDatabase(), await freshRedis()];
    const redis = new Redis(redisDatabase.url, 1_000, () => {});
    const sql = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
    closeAtEnd('in-process service', async () => {
      redis.close();
      await sql.end();
    });
    await redis.connected(1_000);
    const log = new LogConnection(sql);
    // the copy of the migrated database begins a history
    await log.sequenceAndPoll(undefined);
    const start = await log.historyStart();
    const service = new InProcessService({ sql: database.sql, database, redisDatabase, redis, log }, start);
    for (let i = 0; i < 2; i++) service.workers.push(await service.startWorker());
    return service;
  }

  /** Starts a worker where the follower is. It has learned the log backwards, and received nothing. */
  async startWorker(): Promise<InProcessWorker> {
    const window = new Window();
    const place = this.#place;
    window.beginHistory(place.position);
    const { rows, deletedTo } = await this.#log.rowsBefore(place.position, ALL_ROWS);
    const all = rows.findIndex(({ kind }) => kind.startsWith('all_'));
    for (const row of all < 0 ? rows : rows.slice(0, all)) raiseWindow(window, row);
    window.lowerFloor(all < 0 ? deletedTo : rows[all]!.position);
    return new InProcessWorker(this.sql, this.#redis, { ...this.#start, ...place }, window);
  }

  /** Gives positions to all committed changes, and reads the news. */
  async deliver(): Promise<void> {
    for (;;) {
      const poll = await this.#log.sequenceAndPoll(this.#place);
      if (poll.history !== this.#start.history || poll.isContinued !== true)
        throw new Error('the database follows another history');
      this.#place = poll.cutAt ?? poll.last;
      this.announced.push({ rows: poll.rows, place: this.#place, isBusy: poll.isDue, asOfMs: undefined });
      if (!poll.isDue && !poll.cutAt) return;
    }
  }

  /** Deletes these keys, named without their prefix, from Redis. */
  async deleteFromRedis(names: string[]): Promise<void> {
    await this.redisDatabase.client.del(names.map((name) => `${PREFIX}:${name}`));
  }

  /** Delivers the announced news to every worker. */
  receive(): void {
    for (const news of this.announced.splice(0)) for (const worker of this.workers) worker.receive(news);
  }

  async settle(): Promise<void> {
    await this.deliver();
    this.receive();
    for (const worker of this.workers) {
      worker.afterQuery.open();
      worker.beforeFill.open();
    }
    await this.passed();
  }

  /** Resolves when all released and started work has passed Redis. */
  async passed(): Promise<void> {
    for (let i = 0; i < 3; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      await this.sql`select 1`;
      await this.#redis.readMany(['nothing'], LETTER.id);
    }
  }
}

/** Runs the event loop until `isSo`; throws after a timeout. */
export async function until(isSo: () => boolean): Promise<void> {
  const untilMs = performance.now() + UNTIL_MS;
  while (!isSo()) {
    if (performance.now() > untilMs) throw new Error(`never: ${isSo}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
