import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import { AllWorkers } from '../support/all-workers.ts';
import { insertHotels } from '../support/hotel.ts';
import { redisPrefix } from '../support/log-state.ts';
import { databaseAt, type OwnServer, ownPostgres, ownRedis, redisAt } from '../support/own-server.ts';
import { postgresClient } from '../support/postgres-client.ts';
import { FaultProxy } from '../support/proxy.ts';
import { promisedMs } from '../support/run-length.ts';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';
import { untilEqual } from '../support/stall-detector.ts';
import { hotelRow } from './hotels.ts';
import { Load } from './load.ts';
import { batchRequest } from './requests.ts';
import { now, type Sample } from './sample.ts';

interface FixtureOptions {
  /** in addition to the addresses of the proxies */
  env?: Record<string, string>;
  /** default 2 */
  workers?: number;
  /** number of hotels cached when the load begins; default 2,000 */
  warm?: number;
  /** number of hotels; those beyond `warm` are requested once each, 25 a second; default 6,000 */
  hotels?: number;
  /** of PostgreSQL; default 60 */
  maxConnections?: number;
}

const INSERTED_AT_ONCE = 2_000;
const BATCH = 1_000;
/** Time in which a batch to be cached is repeated. */
const FILLED_MS = 60_000;

/** The service on its own Redis and PostgreSQL, each behind a proxy, under a checked load. */
export class Fixture {
  readonly service: Service;
  /** `url` and `client` bypass the proxy */
  readonly redis: { server: OwnServer; proxy: FaultProxy; url: string; client: Redis };
  /** `sql`, of the superuser, and `url`, of the service, bypass the proxy */
  readonly postgres: { server: OwnServer; proxy: FaultProxy; url: string; sql: Sql };
  readonly #options: FixtureOptions;
  readonly #serviceOptions: ServiceOptions;
  #load: Load | undefined;

  private constructor(
    service: Service,
    redis: Fixture['redis'],
    postgres: Fixture['postgres'],
    options: FixtureOptions,
    serviceOptions: ServiceOptions,
  ) {
    this.#serviceOptions = serviceOptions;
    this.service = service;
    this.redis = redis;
    this.postgres = postgres;
    this.#options = options;
  }

  /** Starts everything, fills the caches and begins the load. All is stopped at the end of the file. */
  static async open(options: FixtureOptions = {}): Promise<Fixture> {
    const fixture = await Fixture.set(options);
    await fixture.warm();
    const { port, fullKey: key } = fixture.service;
    fixture.#load = Load.start({ port, key, ...fixture.hotels });
    return fixture;
  }

  /** Starts the servers and the service, with hotels and without a load. */
  static async set(options: FixtureOptions): Promise<Fixture> {
    const [redisServer, postgresServer] = await Promise.all([
      ownRedis(),
      ownPostgres(options.maxConnections ?? 60),
    ]);
    const [redisProxy, postgresProxy] = await Promise.all([
      FaultProxy.before(redisServer.url),
      FaultProxy.before(postgresServer.url),
    ]);
    const redisDatabase = redisAt(redisServer.url);
    const sql = postgresClient(postgresServer.ownerUrl, { max: 2, backoff: () => 0.05 });

    const hotels = options.hotels ?? 6_000;
    for (let i = 0; i < hotels; i += INSERTED_AT_ONCE) {
      const count = Math.min(INSERTED_AT_ONCE, hotels - i);
      await insertHotels(
        sql,
        Array.from({ length: count }, (_, j) => hotelRow(i + j)),
      );
    }
    await sql`analyze`;

    const serviceOptions: ServiceOptions = {
      workers: options.workers ?? 2,
      database: databaseAt(postgresServer.url, postgresServer.ownerUrl, sql),
      redisDatabase,
      env: {
        DATABASE_URL: postgresProxy.url,
        REDIS_URL: redisProxy.url,
        // the default, so that faults exceed it
        DATABASE_TIMEOUT_MS: '500',
        ...options.env,
      },
    };
    return new Fixture(
      await startService(serviceOptions),
      { server: redisServer.server, proxy: redisProxy, url: redisServer.url, client: redisDatabase.client },
      { server: postgresServer.server, proxy: postgresProxy, url: postgresServer.url, sql },
      options,
      serviceOptions,
    );
  }

  /** Starts a second instance on the same servers. */
  another(options: Partial<ServiceOptions>): Promise<Service> {
    return startService({ ...this.#serviceOptions, ...options });
  }

  get load(): Load {
    if (!this.#load) throw new Error('there is no load yet');
    return this.#load;
  }

  get hotels(): { warm: number; hotels: number } {
    return { warm: this.#options.warm ?? 2_000, hotels: this.#options.hotels ?? 6_000 };
  }

  /** Requests every hotel to be cached from every worker, by either id. */
  async warm(): Promise<void> {
    const { warm } = this.hotels;
    const allWorkers = await AllWorkers.of(this.service);
    for (let i = 0; i < warm; i += BATCH) {
      const numbers = Array.from({ length: Math.min(BATCH, warm - i) }, (_, j) => i + j);
      for (const namespace of ['channel', 'registry'] as const) {
        const { path, body } = batchRequest(namespace, numbers);
        const statuses = async () => [
          ...new Set((await allWorkers.post(path, body!)).map(({ status }) => status)),
        ];
        // a busy machine rejects batches that would wait too long
        await untilEqual(FILLED_MS, statuses, [200]);
      }
    }
    allWorkers.close();
  }

  /** Waits until Redis holds every hotel to be cached under each of its ids; for a service without local caches. */
  async inRedis(): Promise<void> {
    const missing = async () => {
      const prefix = await redisPrefix(this.postgres.sql);
      const names = Array.from({ length: this.hotels.warm }, (_, i) => [
        `${prefix}:h:chaos-${i}`,
        `${prefix}:c:CH-${i}`,
        `${prefix}:r:${500_000 + i}`,
      ]).flat();
      return names.length - (await this.redis.client.exists(...names));
    };
    await this.#untilNone(missing, 'Redis lacks');
  }

  /** Waits until every worker holds every hotel to be cached in its local cache. */
  async inWorkers(): Promise<void> {
    const misses = () =>
      this.service.metric('hotel_api_cache_lookups_total', { tier: 'local', result: 'miss' });
    await this.#untilNone(async () => {
      const before = await misses();
      await this.warm();
      // the misses of the load continue meanwhile
      return Math.floor(((await misses()) - before) / this.hotels.warm);
    }, 'the workers lack');
  }

  async #untilNone(missing: () => Promise<number>, what: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      const count = await missing();
      if (count === 0) return;
      if (attempt === 10) throw new Error(`${what} ${count} hotels that should be cached`);
      await this.warm();
      await sleep(200);
    }
  }

  /** Returns the last log lines of the service except rejected requests. */
  notable(): string[] {
    return this.service
      .logs()
      .filter((line) => !line.includes('request rejected'))
      .slice(-25);
  }

  /** Resolves after half a second with normal responses only; throws if that takes too long. */
  async untilNormal(): Promise<void> {
    const beganMs = now();
    for (;;) {
      await sleep(50);
      await this.load.reported();
      const endMs = now() - 100;
      const samples = this.load.between(endMs - NORMAL_SPAN_MS, endMs);
      if (endMs >= beganMs && samples.length > 0 && samples.every(isNormal)) return;
      if (now() - beganMs > NORMAL_TIMEOUT_MS) {
        const announced = this.load.faults.slice(-5).map(({ what }) => what);
        const worst = samples.filter((sample) => !isNormal(sample)).slice(0, 5);
        throw new Error(
          `no calm within ${NORMAL_TIMEOUT_MS} ms: ${JSON.stringify([announced, worst])}\n${this.notable().join('\n')}`,
        );
      }
    }
  }
}

const NORMAL_SPAN_MS = 500;
const NORMAL_TIMEOUT_MS = promisedMs(10_000);
/** Maximum latency without faults. */
const NORMAL_MS = 200;

/** Returns true for a request with a normal response. */
export function isNormal({ outcome, tookMs }: Sample): boolean {
  return outcome === 'ok' && tookMs <= NORMAL_MS;
}
