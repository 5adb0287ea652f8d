import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import { inject, onTestFinished } from 'vitest';
import { type Exit, type Guarded, runGuarded } from '../../src/demo/servers/guarded.ts';
import { isFree } from '../../src/demo/servers/port.ts';
import { serviceOrder } from '../../src/demo/service.ts';
import { BUNDLED } from './bundle.ts';
import { closeAtEnd, fault } from './cleanup.ts';
import { Client, type HttpResponse, type RequestOptions } from './client.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from './database.ts';
import { type Sample, samplesOf } from './metrics.ts';
import { childrenOf } from './processes.ts';
import { FaultProxy } from './proxy.ts';
import { exchange } from './raw-connection.ts';
import { type HotelRow, insertHotels, insertKey } from './rows.ts';

export interface ServiceOptions {
  /** in addition to the harness's environment, which it may override */
  env?: Record<string, string>;
  /** default: if there is one; false: REDIS_URL is unset */
  redis?: boolean;
  /** default 1 */
  workers?: number;
  /** inserted before the service starts */
  hotels?: Partial<HotelRow>[];
  /** database of another service, for a second instance */
  database?: FreshDatabase;
  /** Redis database of another service, for a second instance */
  redisDatabase?: FreshRedis;
  /** ports of an earlier service, to restart it; default: new ones */
  ports?: { port: number; adminPort: number };
  /** false: return before /readyz succeeds */
  awaitReady?: boolean;
  /** replaces the command of npm start */
  command?: Command;
  /** limit of open file descriptors of a process */
  descriptors?: number;
}

type Command = [file: string, ...args: string[]];

/** Command and environment of the image that the tests of the image have built; undefined: the sources. */
const IMAGE: { command: Command; env: Record<string, string> } | undefined =
  process.env.TEST_IMAGE && JSON.parse(process.env.TEST_IMAGE);

function limited(command: Command, descriptors: number | undefined): Command {
  return descriptors ? ['sh', '-c', `ulimit -n ${descriptors}; exec "$@"`, 'sh', ...command] : command;
}

let portsTaken = 0;

/** Returns a free port for one test file: the service shares ports among its processes, so a clash would go unnoticed. */
export async function ownPort(): Promise<number> {
  const block = inject('servers').firstPort + Number(process.env.VITEST_POOL_ID ?? 0) * 100;
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = block + (portsTaken++ % 100);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port from ${block} on`);
}

const READY_TIMEOUT_MS = 200_000;
const STOP_TIMEOUT_MS = 200_000;

/** Starts the real program on its own database and Redis number, and waits until every worker is ready. It is stopped at the end of the file. */
export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const database = options.database ?? (await freshDatabase());
  const withRedis = options.redis ?? inject('servers').redisUrl !== undefined;
  const redis = !withRedis ? undefined : (options.redisDatabase ?? (await freshRedis()));
  const keys = {
    full: await insertKey(database.sql, ['registry']),
    narrow: await insertKey(database.sql, []),
  };
  if (options.hotels?.length) await insertHotels(database.sql, options.hotels);
  const { port, adminPort } = options.ports ?? { port: await ownPort(), adminPort: await ownPort() };
  const lines: string[] = [];
  const order = serviceOrder(
    { databaseUrl: database.url, redisUrl: redis?.url, port, adminPort },
    {
      NODE_COMPILE_CACHE: IMAGE ? undefined : process.env.NODE_COMPILE_CACHE,
      WORKERS: String(options.workers ?? 1),
      // a test that counts connections keeps its own
      CONNECTION_MAX_AGE_S: '0',
      // a test that counts loads makes its own
      WARMUP_TIMEOUT_MS: '0',
      // a machine with other work on it keeps this deadline; the default is tried in virtual time
      DATABASE_TIMEOUT_MS: '5000',
      ...(IMAGE ? IMAGE.env : BUNDLED),
      ...options.env,
    },
  );
  const guarded = await runGuarded(
    {
      ...order,
      command: limited(options.command ?? IMAGE?.command ?? order.command, options.descriptors),
      killAfterMs: STOP_TIMEOUT_MS,
    },
    (line) => lines.push(line),
  );
  const workers = Number(options.env?.WORKERS ?? options.workers ?? 1);
  const parts = { guarded, lines, database, redisDatabase: redis, keys, port, adminPort, workers };
  const service = new Service(parts);
  closeAtEnd(`service on port ${port}`, async () => void (await service.stop()));
  if (options.awaitReady !== false) await service.ready();
  return service;
}

/** Stops a service at the end of the running test, because an idle one takes processor time from the next tests. */
export function stopAfterTest(service: Service): Service {
  onTestFinished(async () => void (await service.stop()));
  return service;
}

/** Starts the service on a database of its own, which it reaches through a proxy. */
export async function startBehindProxy(
  options: ServiceOptions,
): Promise<{ service: Service; proxy: FaultProxy }> {
  const database = await freshDatabase();
  const proxy = await FaultProxy.before(database.url);
  return { proxy, service: await startService({ ...options, database: { ...database, url: proxy.url } }) };
}

/** Starts another instance on the database and the Redis of this service, or without Redis as well. */
export function startBeside(
  { database, redisDatabase }: Service,
  options: ServiceOptions = {},
): Promise<Service> {
  return startService({ database, ...(redisDatabase ? { redisDatabase } : { redis: false }), ...options });
}

interface Parts {
  guarded: Guarded;
  lines: string[];
  database: FreshDatabase;
  redisDatabase: FreshRedis | undefined;
  keys: { full: string; narrow: string };
  port: number;
  adminPort: number;
  workers: number;
}

export class Service {
  readonly port: number;
  readonly adminPort: number;
  readonly url: string;
  readonly adminUrl: string;
  /** pid of the primary */
  readonly pid: number;
  readonly database: FreshDatabase;
  readonly redisDatabase: FreshRedis | undefined;
  /** connection of the superuser */
  readonly sql: Sql;
  readonly redis: Redis | undefined;
  readonly fullKey: string;
  readonly narrowKey: string;
  /** resolves when the primary has exited for any reason */
  readonly exited: Promise<Exit>;
  readonly #guarded: Guarded;
  readonly #lines: string[];
  readonly #workers: number;
  readonly #client: Client;
  readonly #adminClient: Client;
  /** how it exited, if it has */
  #ended: string | undefined;
  #stopped: Promise<{ code: number | null; signal: NodeJS.Signals | null }> | undefined;

  constructor({ guarded, lines, database, redisDatabase, keys, port, adminPort, workers }: Parts) {
    this.port = port;
    this.adminPort = adminPort;
    this.url = `http://127.0.0.1:${port}`;
    this.adminUrl = `http://127.0.0.1:${adminPort}`;
    this.pid = guarded.pid;
    this.exited = guarded.exited;
    this.database = database;
    this.redisDatabase = redisDatabase;
    this.sql = database.sql;
    this.redis = redisDatabase?.client;
    this.fullKey = keys.full;
    this.narrowKey = keys.narrow;
    this.#guarded = guarded;
    this.#lines = lines;
    this.#workers = workers;
    this.#client = new Client(port, keys);
    // its server closes idle connections after 5 s; a request at that moment would fail
    this.#adminClient = new Client(adminPort, keys, Infinity, false);
    void guarded.exited.then(({ code, signal }) => {
      this.#ended = `ended with ${signal ?? `code ${code}`}`;
    });
  }

  /** Sends a GET with the key of full scope by default. */
  get(path: string, options: RequestOptions = {}): Promise<HttpResponse> {
    return this.#client.request(path, options);
  }

  /** Posts text or bytes unchanged, and other values as JSON. */
  post(path: string, body: string | Buffer | object, options: RequestOptions = {}): Promise<HttpResponse> {
    const bytes = Buffer.isBuffer(body)
      ? body
      : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    return this.#client.request(path, { method: 'POST', ...options }, bytes);
  }

  /** Sends bytes on a separate connection; see `exchange`. */
  raw(bytes: Buffer | string): Promise<string> {
    return exchange(this.port, bytes);
  }

  /** Sends a GET to the admin port, without a key. */
  admin(path: string): Promise<HttpResponse> {
    return this.#adminClient.request(path, { key: 'none' });
  }

  async metrics(): Promise<string> {
    return (await this.admin('/metrics')).text;
  }

  /**
   * Returns a metric, summed over the processes and over labels that are not given; 0 if nothing was counted. Throws if the
   * service has no such metric.
   */
  async metric(name: string, labels: Record<string, string> = {}): Promise<number> {
    const wanted = Object.entries(labels);
    return (await this.samples(name))
      .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
      .reduce((sum, { value }) => sum + value, 0);
  }

  /** Returns the samples of a metric, in the order of the exposition. Throws if the service has no such metric. */
  async samples(name: string): Promise<Sample[]> {
    const exposition = await this.metrics();
    if (!exposition.includes(`# TYPE ${name.replace(/_(bucket|count|sum)$/, '')} `))
      throw new Error(`there is no metric ${name}`);
    return samplesOf(exposition).filter((sample) => sample.name === name);
  }

  /** Inserts a hotel with a default id and name; returns its id. */
  async insert(hotel: Partial<HotelRow> = {}): Promise<string> {
    return (await insertHotels(this.sql, [hotel]))[0]!;
  }

  workerPids(): Promise<number[]> {
    return childrenOf(this.pid);
  }

  /** Returns the lines it printed. */
  logs(): string[] {
    return this.#lines;
  }

  /**
   * Resolves when /readyz returns 200 and all workers accept connections, of which one may have been replaced.
   * Rejects with the output if the process exits or the time is over.
   */
  async ready(): Promise<void> {
    const until = performance.now() + READY_TIMEOUT_MS;
    const all = new RegExp(`^hotel_api_workers ${this.#workers}$`, 'm');
    for (;;) {
      const response = await this.admin('/readyz').catch(() => undefined);
      if (response?.status === 200 && (this.#workers === 1 || all.test(await this.metrics().catch(() => ''))))
        return;
      if (this.#ended || performance.now() > until) {
        throw new Error(`the service ${this.#ended ?? 'did not become ready'}:\n${this.#lines.join('\n')}`);
      }
      await sleep(20);
    }
  }

  /** Sends SIGTERM and waits for the exit. The file fails if the service is killed, exits with another code than 0, or leaves workers. */
  stop(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    const endedBefore = this.#ended;
    const { code, signal, forced } = await this.#guarded.stop();
    this.#client.close();
    this.#adminClient.close();
    if (forced)
      fault(`the service on port ${this.port}, or a process it started, did not exit and was killed`);
    else if (!endedBefore && code !== 0) {
      fault(
        `the service on port ${this.port} ended with ${signal ?? `code ${code}`}:\n${this.#lines.join('\n')}`,
      );
    }
    return { code, signal };
  }
}
