import postgres, { type Sql } from 'postgres';
import { ApiKeyCache } from '../../src/auth/api-key-cache.ts';
import { HotelReader } from '../../src/cache/hotel-reader.ts';
import { LocalCache } from '../../src/cache/local-cache.ts';
import { RecentChanges } from '../../src/cache/recent-changes.ts';
import { FeedApplier } from '../../src/change-feed/feed-applier.ts';
import { FeedStatus } from '../../src/change-feed/feed-status.ts';
import { readPosition } from '../../src/change-feed/history.ts';
import type { FeedMessage } from '../../src/change-feed/messages.ts';
import { readPayload } from '../../src/change-feed/payload.ts';
import { Reconciler } from '../../src/change-feed/reconciler.ts';
import type { Corrections } from '../../src/change-feed/redis-writer.ts';
import { FEED_CHANNEL, type Term } from '../../src/change-feed/term.ts';
import { PositionWatch } from '../../src/changes/position-watch.ts';
import { Collections } from '../../src/collections/collections.ts';
import { CollectionRepository } from '../../src/collections/repository.ts';
import { Entry } from '../../src/hotels/entry.ts';
import { LETTER, type Namespace } from '../../src/hotels/namespace.ts';
import { PageIndex } from '../../src/hotels/page-index.ts';
import { HotelRepository } from '../../src/hotels/repository.ts';
import { monotonicMs } from '../../src/lib/clock.ts';
import { MacSecret } from '../../src/lib/mac.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { FeedSilence } from '../../src/postgres/feed-silence.ts';
import { Redis } from '../../src/redis/client.ts';
import { closeAtEnd } from './cleanup.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from './database.ts';
import { beginTerm, REDIS_CACHE_OPTIONS, storesOf, type TermStores } from './terms.ts';

/** Timeout of `until`, which normally takes moments. */
const UNTIL_MS = 20_000;
/** Steps that scan up to two thousand names twice. */
const COMPARE_STEPS = 6;
/** Secret of the values of keys in Redis. */
const KEY_SECRET = new MacSecret();
const METRICS = new Metrics();

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
  readonly #feedApplier: FeedApplier;
  readonly #feedSilence = new FeedSilence();
  readonly #feedStatus = new FeedStatus(this.#feedSilence);

  constructor(sql: Sql, redis: Redis, generation: string) {
    const { hotels: redisCache, keys: redisKeys } = storesOf(redis, KEY_SECRET);
    hold(redisCache, ['fill', 'rememberAbsent'], this.beforeFill);
    hold(redisKeys, ['fill', 'rememberUnknown'], this.beforeFill);
    const rows = async (text: string, parameters: never[]) => {
      const found = await sql.unsafe(text, parameters);
      await this.afterQuery.pass();
      return found;
    };
    const origin = new HotelRepository({ rows } as never);
    const [hotelChanges, keyChanges] = [new RecentChanges(), new RecentChanges()];
    const isFeedUp = () => this.#feedStatus.up;
    this.local = new LocalCache(1024 ** 2, {
      isFeedUp: isFeedUp,
      absentTtlMs: REDIS_CACHE_OPTIONS.absentTtlMs,
      refresh: () => {},
      counts: { hit: 0, absent: 0, miss: 0 },
    });
    this.apiKeys = new ApiKeyCache({
      redisCache: redisKeys,
      postgres: { rows } as never,
      recent: keyChanges,
      isFeedUp,
      mayUseOld: () => true,
      unknownTtlMs: REDIS_CACHE_OPTIONS.absentTtlMs,
      counts: METRICS.keyLookups.counts,
      mayLookUp: () => true,
    });
    this.collectionRepository = new CollectionRepository({ rows } as never);
    this.collections = new Collections({
      repository: this.collectionRepository,
      maxBytes: 16 * 1024 ** 2,
      outsideMs: REDIS_CACHE_OPTIONS.absentTtlMs,
      isFresh: () => true,
    });
    const { collections } = this;
    this.reader = new HotelReader({
      ...{ local: this.local, redisCache, origin, collections, isFeedUp },
      recent: hotelChanges,
      mayUseOld: () => true,
      count: () => {},
    });
    this.#feedApplier = new FeedApplier({
      hotelChanges,
      keyChanges,
      reader: this.reader,
      local: this.local,
      redisBatch: undefined,
      pageIndex: new PageIndex(origin.list, 1024 ** 2),
      collections: this.collections,
      apiKeys: this.apiKeys,
      redisHotels: redisCache,
      redisKeys: redisKeys,
      markerWatch: undefined,
      feedStatus: this.#feedStatus,
      feedSilence: this.#feedSilence,
      logPositions: new PositionWatch(isFeedUp),
      metrics: METRICS,
    });
    this.#feedApplier.useGeneration(generation);
    this.#feedStatus.received(undefined, monotonicMs());
  }

  receive(message: FeedMessage): void {
    this.#feedApplier.apply(message, monotonicMs());
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

/** Invalidator that has not noticed the end of its term; its writes to Redis wait at a sync point. */
interface CompetingInvalidator {
  beforeWrite: SyncPoint;
  /** takes changes from the queue, writes and announces them */
  deliver(): Promise<number>;
  /** closes its connection, and so ends its transaction */
  disconnect(): Promise<void>;
}

const nameOf = (entry: Entry): string => JSON.parse(entry.body('full').toString()).name;

/** PostgreSQL, Redis, an invalidator that works step by step, and the caches of two workers, in this process. */
export class InProcessService {
  readonly sql: Sql;
  readonly database: FreshDatabase;
  readonly redisDatabase: FreshRedis;
  readonly workers: InProcessWorker[] = [];
  /** messages that the invalidator announced and no worker has received */
  readonly announced: FeedMessage[] = [];
  readonly #stores: TermStores;
  readonly #term: Term;
  #competitors: Sql | undefined;
  #competitorClosed = Promise.withResolvers<void>();
  #writeMarker: string | null = null;
  #ownStores = 0;
  #generation = '';
  #syncs = 0;
  #synced = 0;
  #arrived = Promise.withResolvers<void>();

  private constructor(database: FreshDatabase, redisDatabase: FreshRedis, stores: TermStores, term: Term) {
    this.sql = database.sql;
    this.database = database;
    this.redisDatabase = redisDatabase;
    this.#stores = stores;
    this.#term = term;
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
    const stores = { redis, ...storesOf(redis, KEY_SECRET) };
    const term = await beginTerm(sql, stores, null, METRICS);
    const service = new InProcessService(database, redisDatabase, stores, term);
    const secret = new MacSecret();
    secret.use((await readPosition(sql)).secret);
    const read = (payload: string) => readPayload(payload, secret) as FeedMessage;
    await database.sql.listen(FEED_CHANNEL, (payload) =>
      service.#arrive(payload.startsWith('{') ? JSON.parse(payload) : read(payload)),
    );
    await term.deliver();
    await service.#sync();
    for (let i = 0; i < 2; i++) service.workers.push(service.startWorker());
    service.announced.length = 0;
    return service;
  }

  /** Starts a worker, which has received no earlier message. */
  startWorker(): InProcessWorker {
    return new InProcessWorker(this.sql, this.#stores.redis, this.#generation);
  }

  /** Lets the invalidator take all committed changes from the queue, and waits for its messages. */
  async deliver(): Promise<void> {
    while ((await this.#term.deliver()) > 0);
    await this.#sync();
  }

  /** Deletes these keys, named without their generation, from Redis. */
  async deleteFromRedis(names: string[]): Promise<void> {
    await this.redisDatabase.client.del(names.map((name) => `${this.#generation}:${name}`));
  }

  /** Returns stores with separate names in Redis. */
  stores(): ReturnType<typeof storesOf> {
    const stores = storesOf(this.#stores.redis, KEY_SECRET);
    for (const store of Object.values(stores)) store.useGeneration(`of its own ${++this.#ownStores}`);
    return stores;
  }

  /** Starts another invalidator on a separate connection, which knows the position of the feed. */
  async competitor(): Promise<CompetingInvalidator> {
    if (!this.#competitors) {
      const competitors = postgres(this.database.ownerUrl, {
        max: 1,
        onnotice: () => {},
        backoff: () => 0.005,
        onclose: () => this.#competitorClosed.resolve(),
      });
      closeAtEnd('competing invalidator', () => competitors.end());
      this.#competitors = competitors;
    }
    const sql = this.#competitors;
    const beforeWrite = new SyncPoint();
    const { redis } = this.#stores;
    const stores = { redis, ...storesOf(redis, KEY_SECRET) };
    hold(stores.hotels, ['fill', 'removePointers'], beforeWrite);
    const [{ leader }] = (await this.sql`select leader from hotel_api_feed_position`) as unknown as [
      { leader: string },
    ];
    const term = await beginTerm(sql, stores, this.#writeMarker, METRICS);
    // this service's own term continues, as if it had begun after this one
    await this.sql`update hotel_api_feed_position set leader = ${leader}, written_by = pg_current_xact_id()`;
    const [backend] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
    return {
      beforeWrite,
      deliver: () => term.deliver(),
      disconnect: async () => {
        this.#competitorClosed = Promise.withResolvers();
        await this.sql`select pg_terminate_backend(${backend!.pid})`;
        await this.#competitorClosed.promise;
      },
    };
  }

  /**
   * Compares the content of Redis with PostgreSQL like the active invalidator, often enough to confirm findings.
   * Returns the differences.
   */
  async compare(): Promise<Pick<Corrections, 'entries' | 'keys'>> {
    const reconciler = new Reconciler(this.#stores);
    const all: Pick<Corrections, 'entries' | 'keys'> = { entries: [], keys: [] };
    for (let step = 0; step < COMPARE_STEPS; step++) {
      const found = await reconciler.step(this.sql);
      all.entries.push(...(found?.entries ?? []));
      all.keys.push(...(found?.keys ?? []));
    }
    return all;
  }

  /** Delivers the announced messages to every worker. */
  receive(): void {
    for (const message of this.announced.splice(0))
      for (const worker of this.workers) worker.receive(message);
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
      await this.#stores.redis.readMany(['nothing'], LETTER.id);
    }
  }

  #arrive(message: FeedMessage | { sync: number }): void {
    if (!('sync' in message)) {
      if (message.g !== '') this.#generation = message.g;
      this.#writeMarker = message.b;
      this.announced.push(message);
      return;
    }
    this.#synced = message.sync;
    this.#arrived.resolve();
    this.#arrived = Promise.withResolvers();
  }

  async #sync(): Promise<void> {
    const sync = ++this.#syncs;
    await this.sql`select pg_notify(${FEED_CHANNEL}, ${JSON.stringify({ sync })})`;
    while (this.#synced < sync) await this.#arrived.promise;
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
