import postgres, { type Sql } from 'postgres';
import { ApiKeyCache } from '../../src/auth/api-key-cache.ts';
import { RedisKeyCache } from '../../src/auth/redis-key-cache.ts';
import { HotelReader } from '../../src/cache/hotel-reader.ts';
import { LocalCache } from '../../src/cache/local-cache.ts';
import { RecentChanges } from '../../src/cache/recent-changes.ts';
import { RedisHotelCache } from '../../src/cache/redis-hotel-cache.ts';
import type { Findings } from '../../src/change-feed/compare.ts';
import { FeedApplier } from '../../src/change-feed/feed-applier.ts';
import { FeedStatus } from '../../src/change-feed/feed-status.ts';
import { NOTHING_RECEIVED, readPosition } from '../../src/change-feed/history.ts';
import type { FeedMessage } from '../../src/change-feed/messages.ts';
import { readPayload } from '../../src/change-feed/payload.ts';
import { Reconciler } from '../../src/change-feed/reconciler.ts';
import type { RedisStores } from '../../src/change-feed/redis-writer.ts';
import { FEED_CHANNEL, Term } from '../../src/change-feed/term.ts';
import { PositionWatch } from '../../src/changes/position-watch.ts';
import { Collections } from '../../src/collections/collections.ts';
import { CollectionRepository } from '../../src/collections/repository.ts';
import { Entry } from '../../src/hotels/entry.ts';
import { LETTER, type Namespace } from '../../src/hotels/namespace.ts';
import { PageIndex } from '../../src/hotels/page-index.ts';
import { HotelRepository } from '../../src/hotels/repository.ts';
import { MacSecret } from '../../src/lib/mac.ts';
import { Events } from '../../src/observability/events.ts';
import { openLog } from '../../src/observability/log.ts';
import { Metrics } from '../../src/observability/metrics.ts';
import { Redis } from '../../src/redis/client.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from './database.ts';
import { closeAtEnd } from './left-behind.ts';

/** What `until` waits for comes in the next moments, however busy the machine is. */
const UNTIL_MS = 20_000;
/** Twice all of up to two thousand names. */
const COMPARE_STEPS = 6;
/** Of the values of keys in Redis. */
const KEY_SECRET = new MacSecret();
const SHARING = { ttlMs: 600_000, absentTtlMs: 60_000, onInvalidValue: () => {} };

/** A door that work waits at while it is shut. */
export class SyncPoint {
  #shut: PromiseWithResolvers<void> | undefined;
  #waiting = 0;

  shut(): void {
    this.#shut ??= Promise.withResolvers();
  }

  open(): void {
    this.#shut?.resolve();
    this.#shut = undefined;
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting;
  }

  async pass(): Promise<void> {
    if (!this.#shut) return;
    this.#waiting++;
    await this.#shut.promise;
    this.#waiting--;
  }
}

/** The memory of one worker, with doors behind its reads of PostgreSQL and before its writes to Redis. */
export class StagedWorker {
  readonly afterQuery = new SyncPoint();
  readonly beforeFill = new SyncPoint();
  readonly reader: HotelReader;
  readonly local: LocalCache;
  readonly apiKeys: ApiKeyCache;
  readonly collections: Collections;
  readonly #follower: FeedApplier;
  readonly #link = new FeedStatus();

  constructor(sql: Sql, redis: Redis, generation: string) {
    const redisCache = new RedisHotelCache(redis, SHARING);
    const redisKeys = new RedisKeyCache(redis, SHARING, KEY_SECRET);
    for (const store of [redisCache, redisKeys])
      hold(store, ['fill', 'rememberAbsent', 'rememberUnknown'], this.beforeFill);
    const query = async <T>(run: (sql: Sql) => Promise<T>): Promise<T> => {
      const result = await run(sql);
      await this.afterQuery.pass();
      return result;
    };
    const rows = (text: string, parameters: never[]) => query((sql) => sql.unsafe(text, parameters));
    const origin = new HotelRepository({ query, rows } as never);
    const [hotelChanges, keyChanges] = [new RecentChanges(), new RecentChanges()];
    const isFeedUp = () => this.#link.up;
    this.local = new LocalCache(4 * 1024 ** 2, {
      isFeedUp: isFeedUp,
      absentTtlMs: SHARING.absentTtlMs,
      refresh: () => {},
      counts: { hit: 0, absent: 0, miss: 0 },
    });
    this.reader = new HotelReader(this.local, redisCache, origin, hotelChanges, isFeedUp, () => {});
    this.apiKeys = new ApiKeyCache({
      redisCache: redisKeys,
      postgres: { query } as never,
      recent: keyChanges,
      isFeedUp,
      unknownTtlMs: SHARING.absentTtlMs,
      counts: new Metrics().keyLookups.counts,
      mayLookUp: () => true,
    });
    this.collections = new Collections({
      repository: new CollectionRepository({ rows } as never),
      maxBytes: 1024 ** 2,
      isFresh: () => true,
    });
    this.#follower = new FeedApplier({
      hotelChanges,
      keyChanges,
      reader: this.reader,
      local: this.local,
      redisBatch: undefined,
      pageIndex: new PageIndex(origin, 1024 ** 2),
      collections: this.collections,
      apiKeys: this.apiKeys,
      redisHotels: redisCache,
      redisKeys: redisKeys,
      feedStatus: this.#link,
      logPositions: new PositionWatch(isFeedUp),
      metrics: new Metrics(),
    });
    this.#follower.useGeneration(generation);
    this.#link.received(undefined, 0);
  }

  receive(message: FeedMessage): void {
    this.#follower.apply(message, 0);
  }

  /** As a request does: the local cache, else the other tiers. The name, or null where there is no hotel. */
  async ask(namespace: Namespace, key: string): Promise<string | null> {
    const ref = this.local.find(namespace, key);
    if (ref > 0) return nameOf(new Entry(this.local.arena.read(ref)));
    if (ref < 0) return null;
    const [entry] = await this.reader.load(namespace, [key], '');
    return entry ? nameOf(entry) : null;
  }
}

/** Has these methods, where the store has them, wait at a door. */
function hold(store: object, methods: string[], syncPoint: SyncPoint): void {
  const methodsOf = store as Record<string, ((...values: unknown[]) => Promise<unknown>) | undefined>;
  for (const method of methods) {
    const original = methodsOf[method]?.bind(store);
    if (!original) continue;
    methodsOf[method] = async (...values) => {
      await syncPoint.pass();
      return original(...values);
    };
  }
}

/** An invalidator that does not know that its term is over; what it writes to Redis waits at a door. */
export interface Rival {
  beforeWrite: SyncPoint;
  /** takes changes off the queue, writes them and tells of them */
  deliver(): Promise<number>;
  /** ends its connection, and with it its transaction */
  cutOff(): Promise<void>;
}

const EVENTS = new Events(openLog('silent', 'test'));
const storesOf = (redis: Redis) => ({
  hotels: new RedisHotelCache(redis, SHARING),
  keys: new RedisKeyCache(redis, SHARING, KEY_SECRET),
});
const nameOf = (entry: Entry): string => JSON.parse(entry.body('full').toString()).name;

/** PostgreSQL, Redis, an invalidator that works step by step, and the memories of two workers, in this process. */
export class Stage {
  readonly sql: Sql;
  readonly database: FreshDatabase;
  readonly redisDatabase: FreshRedis;
  readonly workers: StagedWorker[] = [];
  /** what the invalidator has said and no worker has heard yet */
  readonly announced: FeedMessage[] = [];
  readonly #redis: Redis;
  readonly #access: RedisStores;
  readonly #term: Term;
  #rivals: Sql | undefined;
  #rivalClosed = Promise.withResolvers<void>();
  #beat: string | null = null;
  #ownStores = 0;
  #generation = '';
  #syncs = 0;
  #synced = 0;
  #arrived = Promise.withResolvers<void>();

  private constructor(
    database: FreshDatabase,
    redisDatabase: FreshRedis,
    redisStores: RedisStores & { redis: Redis },
    term: Term,
  ) {
    this.sql = database.sql;
    this.database = database;
    this.redisDatabase = redisDatabase;
    this.#redis = redisStores.redis;
    this.#access = redisStores;
    this.#term = term;
  }

  static async set(): Promise<Stage> {
    const [database, redisDatabase] = [await freshDatabase(), await freshRedis()];
    const redis = new Redis(redisDatabase.url, 1_000, () => {});
    const sql = postgres(database.ownerUrl, { max: 1, onnotice: () => {} });
    closeAtEnd('stage', async () => {
      redis.close();
      await sql.end();
    });
    await redis.connected(1_000);
    const redisStores = { redis, ...storesOf(redis) };
    const term = await Term.begin(sql, redisStores, null, NOTHING_RECEIVED, new Metrics(), EVENTS);
    const stage = new Stage(database, redisDatabase, redisStores, term);
    const secret = new MacSecret();
    secret.use((await readPosition(sql)).secret);
    const read = (payload: string) => readPayload(payload, secret) as FeedMessage;
    await database.sql.listen(FEED_CHANNEL, (payload) =>
      stage.#arrive(payload.startsWith('{') ? JSON.parse(payload) : read(payload)),
    );
    await term.deliver();
    await stage.#sync();
    for (let i = 0; i < 2; i++) stage.workers.push(stage.newcomer());
    stage.announced.length = 0;
    return stage;
  }

  /** A worker that starts now: it has heard of nothing that was told before. */
  newcomer(): StagedWorker {
    return new StagedWorker(this.sql, this.#redis, this.#generation);
  }

  /** The invalidator takes off the queue all that is committed, and what it says arrives. */
  async deliver(): Promise<void> {
    while ((await this.#term.deliver()) > 0);
    await this.#sync();
  }

  /** Redis forgets these keys, named without their generation. (To look for them takes longer with every round.) */
  async forget(names: string[]): Promise<void> {
    await this.redisDatabase.client.del(names.map((name) => `${this.#generation}:${name}`));
  }

  /** Redis as others know it, under names that nobody else uses. */
  stores(): ReturnType<typeof storesOf> {
    const stores = storesOf(this.#redis);
    for (const store of Object.values(stores)) store.useGeneration(`of its own ${++this.#ownStores}`);
    return stores;
  }

  /** Another invalidator that begins now, on a connection of its own, and knows all that was told. */
  async rival(): Promise<Rival> {
    if (!this.#rivals) {
      const rivals = postgres(this.database.ownerUrl, {
        max: 1,
        onnotice: () => {},
        backoff: () => 0.005,
        onclose: () => this.#rivalClosed.resolve(),
      });
      closeAtEnd('rival', () => rivals.end());
      this.#rivals = rivals;
    }
    const sql = this.#rivals;
    const beforeWrite = new SyncPoint();
    const stores = storesOf(this.#redis);
    hold(stores.hotels, ['fill', 'withdraw'], beforeWrite);
    const redisStores = { redis: this.#redis, ...stores };
    const [{ leader }] = (await this.sql`select leader from hotel_api_feed_position`) as unknown as [
      { leader: string },
    ];
    const term = await Term.begin(sql, redisStores, this.#beat, NOTHING_RECEIVED, new Metrics(), EVENTS);
    // the stage's own term goes on, as if it had begun after this one
    await this.sql`update hotel_api_feed_position set leader = ${leader}, written_by = pg_current_xact_id()`;
    const [backend] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
    return {
      beforeWrite,
      deliver: () => term.deliver(),
      cutOff: async () => {
        this.#rivalClosed = Promise.withResolvers();
        await this.sql`select pg_terminate_backend(${backend!.pid})`;
        await this.#rivalClosed.promise;
      },
    };
  }

  /**
   * Compares all that Redis holds with PostgreSQL, as the active invalidator does step by step, and so often that what
   * lasts is seen to last. What is wrong.
   */
  async compare(): Promise<Pick<Findings, 'entries' | 'keys'>> {
    const reconciler = new Reconciler(this.#access);
    const all: Pick<Findings, 'entries' | 'keys'> = { entries: [], keys: [] };
    for (let step = 0; step < COMPARE_STEPS; step++) {
      const found = await reconciler.step(this.sql);
      all.entries.push(...(found?.entries ?? []));
      all.keys.push(...(found?.keys ?? []));
    }
    return all;
  }

  /** Every worker hears what was told. */
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

  /** Resolves when whatever was let go, or has begun, has gone through Redis. */
  async passed(): Promise<void> {
    for (let i = 0; i < 3; i++) {
      await new Promise((resolve) => setImmediate(resolve));
      await this.sql`select 1`;
      await this.#redis.readMany(['nothing'], LETTER.id);
    }
  }

  #arrive(message: FeedMessage | { sync: number }): void {
    if (!('sync' in message)) {
      if (message.g !== '') this.#generation = message.g;
      this.#beat = message.b;
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

/** Lets what is ready run until `isSo`; throws when that never comes. */
export async function until(isSo: () => boolean): Promise<void> {
  const untilMs = performance.now() + UNTIL_MS;
  while (!isSo()) {
    if (performance.now() > untilMs) throw new Error(`never: ${isSo}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}
