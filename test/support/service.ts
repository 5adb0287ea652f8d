import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import { inject } from 'vitest';
import { type Exit, type Guarded, runGuarded } from '../../src/demo/servers/guarded.ts';
import { childrenOf } from '../../src/demo/servers/processes.ts';
import { type Answer, type AskOptions, Client } from './client.ts';
import { type FreshDatabase, type FreshRedis, freshDatabase, freshRedis } from './database.ts';
import { samplesOf } from './exposition.ts';
import { inForm } from './form.ts';
import { type HotelRow, insertHotels } from './hotel.ts';
import { insertKey } from './key.ts';
import { closeAtEnd, fault } from './left-behind.ts';
import { ownPort } from './own-port.ts';
import { uwsEnvironment } from './uws.ts';

export interface ServiceOptions {
  /** beside what the harness sets, or instead of it */
  env?: Record<string, string>;
  /** default: where there is one; false: REDIS_URL is unset */
  redis?: boolean;
  /** default 1 */
  workers?: number;
  /** inserted before the service starts */
  hotels?: Partial<HotelRow>[];
  /** of another service, to run a second instance beside it */
  database?: FreshDatabase;
  /** likewise */
  redisDatabase?: FreshRedis;
  /** of a service that has ended, to start it again where it was; default: new ones */
  ports?: { port: number; adminPort: number };
  /** false: does not wait for /readyz */
  awaitReady?: boolean;
  /** instead of what npm start runs */
  command?: [file: string, ...args: string[]];
}

/** Where other tests take the processors, a test of a deadline sets it, and no other test is to meet one. */
const PATIENT = { DATABASE_TIMEOUT_MS: '3000' };

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const READY_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 60_000;

/**
 * The real binary on a database and a Redis number of its own, every worker ready to be asked. It is stopped at the
 * file's end.
 */
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
  const { uwsFolder } = inject('servers');
  const lines: string[] = [];
  const guarded = await runGuarded(
    {
      command: options.command ?? [process.execPath, 'src/main.ts', 'serve'],
      cwd: ROOT,
      env: {
        PATH: process.env.PATH,
        HOME: process.env.HOME,
        DATABASE_URL: database.url,
        ...(redis && { REDIS_URL: redis.url }),
        HOST: '127.0.0.1',
        PORT: String(port),
        ADMIN_HOST: '127.0.0.1',
        ADMIN_PORT: String(adminPort),
        WORKERS: String(options.workers ?? 1),
        LOG_LEVEL: 'info',
        DRAIN_WAIT_MS: '0',
        ...(uwsFolder !== undefined && uwsEnvironment(uwsFolder)),
        ...inForm<Record<string, string>>(PATIENT, {}),
        ...options.env,
      },
      stopSignal: 'SIGTERM',
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
  /** of the primary */
  readonly pid: number;
  readonly database: FreshDatabase;
  readonly redisDatabase: FreshRedis | undefined;
  /** as the superuser */
  readonly sql: Sql;
  readonly redis: Redis | undefined;
  readonly fullKey: string;
  readonly narrowKey: string;
  /** resolves when the primary has ended, whoever ended it */
  readonly exited: Promise<Exit>;
  readonly #guarded: Guarded;
  readonly #lines: string[];
  readonly #workers: number;
  readonly #client: Client;
  readonly #adminClient: Client;
  /** how, when it has */
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
    this.#adminClient = new Client(adminPort, keys);
    void guarded.exited.then(({ code, signal }) => {
      this.#ended = `ended with ${signal ?? `code ${code}`}`;
    });
  }

  /** Asks with the key that sees all, unless told otherwise. */
  get(path: string, options: AskOptions = {}): Promise<Answer> {
    return this.#client.ask(path, options);
  }

  /** Posts text or bytes as they are, and anything else as JSON. */
  post(path: string, body: string | Buffer | object, options: AskOptions = {}): Promise<Answer> {
    const bytes = Buffer.isBuffer(body)
      ? body
      : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
    return this.#client.ask(path, { method: 'POST', ...options }, bytes);
  }

  /** Sends bytes on a connection of its own, with `half` followed by the end of ours; see `Client.raw`. */
  raw(bytes: Buffer | string, { half = false } = {}): Promise<Buffer> {
    return this.#client.raw(bytes, half);
  }

  /** Asks the admin port, without a key. */
  admin(path: string): Promise<Answer> {
    return this.#adminClient.ask(path, { key: 'none' });
  }

  async metrics(): Promise<string> {
    return (await this.admin('/metrics')).text;
  }

  /**
   * A metric, summed over the processes and over the labels that are not given; 0 where nothing was counted yet. Throws
   * where the service has no such metric.
   */
  async metric(name: string, labels: Record<string, string> = {}): Promise<number> {
    const exposition = await this.metrics();
    if (!exposition.includes(`# TYPE ${name.replace(/_(bucket|count|sum)$/, '')} `))
      throw new Error(`there is no metric ${name}`);
    const wanted = Object.entries(labels);
    return samplesOf(exposition)
      .filter((sample) => sample.name === name)
      .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
      .reduce((sum, { value }) => sum + value, 0);
  }

  /** Inserts a hotel, with an id and a name where none is given; returns its id. */
  async insert(hotel: Partial<HotelRow> = {}): Promise<string> {
    return (await insertHotels(this.sql, [hotel]))[0]!;
  }

  workerPids(): Promise<number[]> {
    return childrenOf(this.pid);
  }

  /** What it printed, line by line. */
  logs(): string[] {
    return this.#lines;
  }

  /**
   * Resolves when /readyz says 200 and every worker accepts connections: it says so with the first. Rejects with what
   * the process printed when it ends first or time is over.
   */
  async ready(): Promise<void> {
    const until = performance.now() + READY_TIMEOUT_MS;
    const all = new RegExp(`^hotel_api_workers ${this.#workers}$`, 'm');
    for (;;) {
      const answer = await this.admin('/readyz').catch(() => undefined);
      if (answer?.status === 200 && (this.#workers === 1 || all.test(await this.metrics().catch(() => ''))))
        return;
      if (this.#ended || performance.now() > until) {
        throw new Error(`the service ${this.#ended ?? 'did not get ready'}:\n${this.#lines.join('\n')}`);
      }
      await sleep(20);
    }
  }

  /**
   * Sends SIGTERM and waits for the end. The file fails for a service that has to be killed, that ends with
   * another code than 0, or whose workers outlive it.
   */
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
      fault(`the service on port ${this.port}, or a process it started, did not end and was killed`);
    else if (!endedBefore && code !== 0) {
      fault(
        `the service on port ${this.port} ended with ${signal ?? `code ${code}`}:\n${this.#lines.join('\n')}`,
      );
    }
    return { code, signal };
  }
}
