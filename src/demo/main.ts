import { randomBytes } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { Command } from 'commander';
import { parseWhole } from '../cli/common/arguments.ts';
import { count } from '../cli/common/progress.ts';
import { createKey } from '../cli/keys.ts';
import { DEFAULT_SEED, seed } from '../cli/seed.ts';
import { Shutdown } from '../lib/shutdown.ts';
import { onStopSignals } from '../lib/stop-signals.ts';
import { openDatabase } from '../postgres/connect.ts';
import { migrate } from '../postgres/migrate.ts';
import { type Guarded, runGuarded } from './servers/guarded.ts';
import { choosePort } from './servers/port.ts';
import { type PostgresServer, startPostgres } from './servers/postgres.ts';
import { findRedis } from './servers/redis.ts';
import { serviceOrder, untilReady } from './service.ts';

const DATABASE = 'postgres';
const LOGIN = 'hotel_api';
/** connections of a worker, those of the primary process and some spare: see DATABASE_POOL_SIZE */
const CONNECTIONS_PER_WORKER = 12;
const STOP_DEADLINE_MS = 12_000;

const parsePort = parseWhole(1, 65_535);

const program = new Command('npm run demo --')
  .description('run the service with PostgreSQL, Redis and generated hotels, without prior installation')
  .option('--hotels <n>', 'number of hotels', parseWhole(10, 10_000_000), 20_000)
  .option('--port <port>', 'public port (default: 8080, or a free port if it is in use)', parsePort)
  .option('--admin-port <port>', 'admin port (default: 9090, or a free port if it is in use)', parsePort)
  .option('--workers <n>', 'worker processes', parseWhole(1, 64), Math.min(8, availableParallelism()))
  .exitOverride((error) => process.exit(error.exitCode === 0 ? 0 : 2))
  .parse();

const shutdown = new Shutdown();
const { promise: outcome, resolve } = Promise.withResolvers<{ code: number; sentence: string }>();
const ending = new AbortController();
const end = (code: number, sentence: string) => {
  resolve({ code, sentence });
  ending.abort();
};
const log = (sentence: string) => ending.signal.aborted || console.log(sentence);

onStopSignals(
  ['SIGINT', 'SIGTERM', 'SIGHUP'],
  () => end(0, 'Ending.'),
  // the guard then stops the servers and removes their files
  () => process.exit(1),
);
// the terminal or the reader of a pipe may close first
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {});

run().then(
  (sentence) => end(1, sentence),
  (error: Error) => end(1, `The demo failed: ${error.message}`),
);
const { code, sentence } = await outcome;
(code === 0 ? console.log : console.error)(`\n${sentence}`);
for (const fault of await shutdown.close()) console.error(`not closed cleanly: ${fault}`);
process.exit(code);

/**
 * Starts everything and prints how to use it. Each part is pushed to `shutdown` before it runs, so the demo may be closed
 * at any time. Resolves with a message when the service has exited by itself.
 */
async function run(): Promise<string> {
  const options = program.opts<{ hotels: number; workers: number; port?: number; adminPort?: number }>();
  const port = await choosePort(options.port, 8080, 'port', log);
  const adminPort = await choosePort(options.adminPort, 9090, 'admin-port', log);
  if (port === adminPort) throw new Error('--port and --admin-port must differ');

  log('Starting PostgreSQL and Redis …');
  const startingPostgres = startPostgres({ maxConnections: 50 + CONNECTIONS_PER_WORKER * options.workers });
  stopAtEnd('PostgreSQL', startingPostgres);
  const findingRedis = findRedis(log, ending.signal);
  stopAtEnd(
    'Redis',
    findingRedis.then((redis) => redis?.server),
  );
  const [postgres, redis] = await Promise.all([startingPostgres, findingRedis]);
  if (!redis) log('Continuing without Redis: local caches and PostgreSQL.');

  log(`Generating ${options.hotels} hotels …`);
  const filled = await fill(postgres, options.hotels);

  log(`Starting the service with ${count('worker')(options.workers)} …`);
  let isReady = false;
  const starting = runGuarded(
    serviceOrder(
      { databaseUrl: filled.serviceUrl, redisUrl: redis?.url, port, adminPort },
      // the processors may be busy
      { WORKERS: String(options.workers), LOG_LEVEL: 'warn', DATABASE_TIMEOUT_MS: '5000' },
    ),
    (line) => {
      if (isReady) console.error(line);
    },
  );
  stopAtEnd('service', starting);
  const service = await starting;
  await untilReady(service, adminPort, 'the service');
  isReady = true;

  log(`  Service     http://127.0.0.1:${port}  /docs /openapi.json; pid ${service.pid}`);
  log(`  Admin       http://127.0.0.1:${adminPort}  /livez /readyz /metrics`);
  log(`  PostgreSQL  ${postgres.url(DATABASE)}`);
  log(`  Redis       ${redis ? (redis.server?.url ?? 'REDIS_URL') : 'none'}`);
  log(`  Keys        ${filled.fullKey}  scope registry`);
  log(`              ${filled.narrowKey}  no scope`);
  for (const line of curlLines(`http://127.0.0.1:${port}`, filled)) log(line);
  log('Ready. Ctrl-C stops it and removes all its files.');

  const { code, signal } = await service.exited;
  return `The service has exited (${signal ?? `code ${code}`}); the demo stops.`;
}

/** Stops a server at the end, also one that is still starting. */
function stopAtEnd(name: string, starting: Promise<Guarded | undefined>): void {
  const started = starting.catch(() => undefined);
  shutdown.push(name, async () => (await started)?.stop(), STOP_DEADLINE_MS);
}

/** Keys, and two hotels with all three ids. */
interface Examples {
  fullKey: string;
  narrowKey: string;
  hotels: { id: string; channelId: string; registryId: string }[];
}

/** Creates the schema, the login of the service, hotels and two keys. */
async function fill(server: PostgresServer, hotelCount: number): Promise<Examples & { serviceUrl: string }> {
  const ownerUrl = server.url(DATABASE);
  const owner = openDatabase(ownerUrl, 1, { kind: 'operate' });
  shutdown.push('connection to PostgreSQL', () => owner.end({ timeout: 0 }));
  await migrate(owner);
  const password = randomBytes(16).toString('hex');
  await owner.unsafe(`create role ${LOGIN} login password '${password}' in role hotel_api_serve`);
  await seed(owner, hotelCount, { seed: DEFAULT_SEED, today: new Date().toISOString().slice(0, 10) });
  const { key: fullKey } = await createKey(owner, { name: 'demo, with registry', scopes: ['registry'] });
  const { key: narrowKey } = await createKey(owner, { name: 'demo, without' });
  const hotels = await owner<Examples['hotels']>`
    select id, channel_id as "channelId", registry_id::text as "registryId" from hotels
    where channel_id is not null and registry_id is not null order by id collate "C" limit 2`;
  await owner.end();
  const serviceUrl = Object.assign(new URL(ownerUrl), { username: LOGIN, password }).href;
  return { serviceUrl, fullKey, narrowKey, hotels };
}

/** Returns commands that can be run as printed: each operation on hotels with the full key, and one hotel with the other key. */
function curlLines(url: string, { fullKey, narrowKey, hotels }: Examples): string[] {
  const [first, second] = hotels as [Examples['hotels'][0], Examples['hotels'][0]];
  const curl = (path: string, body?: object, key = fullKey) =>
    `curl -sH 'x-api-key: ${key}' '${url}${path}'${body ? ` -d '${JSON.stringify(body)}'` : ''}`;
  return [
    curl('/hotels?limit=2'),
    curl(`/hotels?registry_id=${first.registryId}`),
    curl(`/hotels/${first.id}`),
    curl(`/hotels/channel/${first.channelId}`),
    curl(`/hotels/registry/${first.registryId}`),
    curl(`/hotels/${first.id}`, undefined, narrowKey),
    curl('/hotels/batch', { ids: [first.id, second.id] }),
    curl('/hotels/channel/batch', { channel_ids: [first.channelId, second.channelId] }),
    curl('/hotels/registry/batch', { registry_ids: [Number(first.registryId), second.registryId] }),
  ];
}
