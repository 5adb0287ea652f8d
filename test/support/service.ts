import { setTimeout as sleep } from 'node:timers/promises';
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
}

type Command = [file: string, ...args: string[]];

/** Command and environment of the image that the tests of the image have built; undefined: the sources. */
const IMAGE: { command: Command; env: Record<string, string> } | undefined =
  process.env.TEST_IMAGE && JSON.parse(process.env.TEST_IMAGE);

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
  const redisDatabase = withRedis ? (options.redisDatabase ?? (await freshRedis())) : undefined;
  const keys = {
    full: await insertKey(database.sql, ['registry']),
    narrow: await insertKey(database.sql, []),
  };
  if (options.hotels?.length) await insertHotels(database.sql, options.hotels);
  const { port, adminPort } = options.ports ?? { port: await ownPort(), adminPort: await ownPort() };
  const lines: string[] = [];
  const order = serviceOrder(
    { databaseUrl: database.url, redisUrl: redisDatabase?.url, port, adminPort },
    {
      WORKERS: String(options.workers ?? 1),
      // a test that counts connections keeps its own
      CONNECTION_MAX_AGE_S: '0',
      // a test that counts loads makes its own
      WARMUP_TIMEOUT_MS: '0',
      // these tests judge responses; unit tests and the simulation judge the deadline, in virtual time
      DATABASE_TIMEOUT_MS: '5000',
      ...(IMAGE ? IMAGE.env : BUNDLED),
      ...options.env,
    },
  );
  const guarded = await runGuarded(
    {
      ...order,
      command: options.command ?? IMAGE?.command ?? order.command,
      killAfterMs: STOP_TIMEOUT_MS,
    },
    (line) => lines.push(line),
  );
  const workers = Number(options.env?.WORKERS ?? options.workers ?? 1);
  const service = serviceOf({ guarded, lines, database, redisDatabase, keys, port, adminPort, workers });
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

export type Service = ReturnType<typeof serviceOf>;

function serviceOf({
  guarded,
  lines,
  database,
  redisDatabase,
  keys,
  port,
  adminPort,
  workers,
}: {
  guarded: Guarded;
  lines: string[];
  database: FreshDatabase;
  redisDatabase: FreshRedis | undefined;
  keys: { full: string; narrow: string };
  port: number;
  adminPort: number;
  workers: number;
}) {
  const client = new Client(port, keys);
  // its server closes idle connections after 5 s; a request at that moment would fail
  const adminClient = new Client(adminPort, {}, false);
  /** how it exited, if it has */
  let ended: string | undefined;
  void guarded.exited.then(({ code, signal }) => {
    ended = `ended with ${signal ?? `code ${code}`}`;
  });

  /** Sends a GET, or a request with another method, to the admin port. */
  const admin = (path: string, method = 'GET') => adminClient.request(path, { method });
  const metrics = async (): Promise<string> => (await admin('/metrics')).text;

  /** Returns the samples of a metric, in the order of the exposition. Throws if the service has no such metric. */
  async function samples(name: string): Promise<Sample[]> {
    const exposition = await metrics();
    if (!exposition.includes(`# TYPE ${name.replace(/_(bucket|count|sum)$/, '')} `))
      throw new Error(`there is no metric ${name}`);
    return samplesOf(exposition).filter((sample) => sample.name === name);
  }

  let stopping: ReturnType<typeof stop> | undefined;
  async function stop(): Promise<Omit<Exit, 'forced'>> {
    const endedBefore = ended;
    const { forced, ...exit } = await guarded.stop();
    client.close();
    adminClient.close();
    if (forced) fault(`the service on port ${port}, or a process it started, did not exit and was killed`);
    else if (!endedBefore && exit.code !== 0)
      fault(`the service on port ${port} ${ended}:\n${lines.join('\n')}`);
    return exit;
  }

  return {
    ...{ port, adminPort, url: `http://127.0.0.1:${port}`, adminUrl: `http://127.0.0.1:${adminPort}` },
    ...{ database, redisDatabase, fullKey: keys.full, narrowKey: keys.narrow },
    ...{ admin, metrics, samples },
    /** pid of the primary */
    pid: guarded.pid,
    /** resolves when the primary has exited for any reason */
    exited: guarded.exited,
    /** connection of the superuser */
    sql: database.sql,
    redis: redisDatabase?.client,

    /** Sends a GET with the key of full scope by default. */
    get: (path: string, options: RequestOptions = {}): Promise<HttpResponse> => client.request(path, options),

    /** Posts text or bytes unchanged, and other values as JSON. */
    post(path: string, body: string | Buffer | object, options: RequestOptions = {}): Promise<HttpResponse> {
      const bytes = Buffer.isBuffer(body)
        ? body
        : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
      return client.request(path, { method: 'POST', ...options }, bytes);
    },

    /** Sends bytes on a separate connection; see `exchange`. */
    raw: (bytes: Buffer | string): Promise<string> => exchange(port, bytes),

    /**
     * Returns a metric, summed over the processes and over labels that are not given; 0 if nothing was counted. Throws if the
     * service has no such metric.
     */
    async metric(name: string, labels: Record<string, string> = {}): Promise<number> {
      const wanted = Object.entries(labels);
      return (await samples(name))
        .filter((sample) => wanted.every(([label, value]) => sample.labels[label] === value))
        .reduce((sum, { value }) => sum + value, 0);
    },

    /** Inserts a hotel with a default id and name; returns its id. */
    insert: async (hotel: Partial<HotelRow> = {}): Promise<string> =>
      (await insertHotels(database.sql, [hotel]))[0]!,

    workerPids: (): Promise<number[]> => childrenOf(guarded.pid),

    /** Returns the lines it printed. */
    logs: (): string[] => lines,

    /**
     * Resolves when /readyz returns 200 and all workers accept connections, of which one may have been replaced.
     * Rejects with the output if the process exits or the time is over.
     */
    async ready(): Promise<void> {
      const untilMs = performance.now() + READY_TIMEOUT_MS;
      const all = new RegExp(`^hotel_api_workers ${workers}$`, 'm');
      for (;;) {
        const response = await admin('/readyz').catch(() => undefined);
        if (response?.status === 200 && (workers === 1 || all.test(await metrics().catch(() => '')))) return;
        if (ended || performance.now() > untilMs)
          throw new Error(`the service ${ended ?? 'did not become ready'}:\n${lines.join('\n')}`);
        await sleep(20);
      }
    },

    /** Sends SIGTERM and waits for the exit. The file fails if the service is killed, exits with another code than 0, or leaves workers. */
    stop: (): ReturnType<typeof stop> => (stopping ??= stop()),
  };
}
