import { availableParallelism } from 'node:os';
import Type, { type Static } from 'typebox';
import Value from 'typebox/value';
import { faultOfPostgresUrl, faultOfRedisUrls, replicaUrlsOf, withoutSecrets } from './addresses.ts';

const text = (description: string, options: { default?: string; pattern?: string } = {}) =>
  Type.String({ description, ...options });
const whole = (description: string, fallback: number, minimum: number, maximum: number) =>
  Type.Integer({ description, default: fallback, minimum, maximum });

const MIB = 1024 * 1024;

/** Every variable the service reads, with its default and bounds. The README's table says the same. */
export const Environment = Type.Object({
  DATABASE_URL: text('PostgreSQL, 15 or newer: postgres://user:password@host:5432/database', {
    pattern: '^postgres(ql)?://.+',
  }),
  DATABASE_DIRECT_URL: text(
    'PostgreSQL itself, where DATABASE_URL is a pooler in transaction mode: for the change feed and the commands',
    { default: '', pattern: '^$|^postgres(ql)?://.+' },
  ),
  DATABASE_REPLICA_URLS: text(
    'read replicas, separated by commas; they are read where they hold all that was heard of changes',
    { default: '', pattern: '^$|^postgres(ql)?://[^,]+(,\\s*postgres(ql)?://[^,]+)*$' },
  ),
  DATABASE_POOL_SIZE: whole('connections of each worker to PostgreSQL, and to each replica', 8, 1, 100),
  DATABASE_QUEUE_LIMIT: whole(
    'queries of a worker that may wait for a connection; past it the answer is 503',
    200,
    1,
    100_000,
  ),
  DATABASE_TIMEOUT_MS: whole('deadline of a query, waiting included', 500, 10, 60_000),
  REDIS_URL: text(
    'Redis or Valkey: redis://user:password@host:6379/0, rediss:// with TLS; several nodes of a cluster, ' +
      'comma-separated, with one user, password and scheme and without a database number; empty: no Redis',
    { default: '', pattern: '^$|^rediss?://[^,]+( *, *rediss?://[^,]+)*$' },
  ),
  REDIS_TIMEOUT_MS: whole('deadline of a Redis command', 100, 5, 10_000),
  REDIS_TTL_S: whole('how long Redis keeps a hotel or a key', 86_400, 1, 2_592_000),
  ABSENT_TTL_S: whole('how long an id that was not found is remembered as absent', 60, 1, 3_600),
  HOST: text('address of the public port', { default: '0.0.0.0' }),
  PORT: whole('public port', 8080, 1, 65_535),
  ADMIN_HOST: text('address of the admin port', { default: '0.0.0.0' }),
  ADMIN_PORT: whole('admin port: /livez, /readyz, /metrics', 9090, 1, 65_535),
  WORKERS: whole('worker processes', availableParallelism(), 1, 256),
  BASE_PATH: text('stands before every path of the contract, e.g. /v1', {
    default: '',
    pattern: '^$|^(/[A-Za-z0-9._~-]+)+$',
  }),
  PUBLIC_URL: text(
    'scheme and host by which clients reach the service, e.g. https://hotels.example.com, for the documentation',
    { default: '', pattern: '^$|^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$' },
  ),
  SUPPORT_EMAIL: text('who gives out keys, for the documentation', {
    default: '',
    pattern: '^$|^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+$',
  }),
  L1_MAX_BYTES: whole(
    "a worker's local cache; 0 turns it off, else at least 1 MiB",
    256 * MIB,
    0,
    3_072 * MIB,
  ),
  DRAIN_WAIT_MS: whole('after SIGTERM: how long requests are still accepted, not ready', 3_000, 0, 60_000),
  DRAIN_TIMEOUT_MS: whole('after SIGTERM: how long requests under way may take', 8_000, 100, 60_000),
  ACCESS_LOG_SAMPLE: Type.Number({
    description: 'share of requests of which a line is logged though they neither failed nor were slow',
    default: 0.001,
    minimum: 0,
    maximum: 1,
  }),
  ACCESS_LOG_SLOW_MS: whole('a request that takes so long is logged', 250, 1, 60_000),
  LOG_LEVEL: Type.Enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'], {
    description: 'least level that is logged',
    default: 'info',
  }),
});

/** The effective configuration: one frozen record, read once. */
export type Config = Readonly<Static<typeof Environment>>;

/** What is wrong with the environment: every fault, one a line. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

/**
 * Reads the configuration from an environment. An empty variable counts as unset.
 * Throws a `ConfigError` that names every fault, with the variable, its bounds and never its value.
 */
export function readConfig(environment: NodeJS.ProcessEnv): Config {
  const given: Record<string, unknown> = {};
  for (const [name, schema] of Object.entries(Environment.properties)) {
    const value = environment[name]?.trim();
    if (value) given[name] = 'minimum' in schema && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  }
  const config = Value.Default(Environment, given) as Config;
  const paths = Value.Errors(Environment, config).map(({ instancePath }) => instancePath);
  const faults = new Set(paths.map((path) => explain(path, config)));
  if (Number(given.L1_MAX_BYTES) > 0 && Number(given.L1_MAX_BYTES) < MIB)
    faults.add(explain('/L1_MAX_BYTES', config));
  if (config.PORT === config.ADMIN_PORT)
    faults.add('PORT and ADMIN_PORT must differ: the admin port is not for the public');
  for (const [name, fault] of faultsOfAddresses(config, paths)) faults.add(`${name} is malformed: ${fault}`);
  if (faults.size > 0) throw new ConfigError([...faults].join('\n'));
  return Object.freeze(config);
}

/** What is wrong with addresses that have the form of one (all but those whose fault has a path). */
function* faultsOfAddresses(config: Config, paths: string[]): Generator<[name: string, fault: string]> {
  const isWellFormed = (name: keyof Config) => config[name] && !paths.includes(`/${name}`);
  for (const name of ['DATABASE_URL', 'DATABASE_DIRECT_URL'] as const) {
    const fault = isWellFormed(name) && faultOfPostgresUrl(config[name]);
    if (fault) yield [name, fault];
  }
  const replicas = isWellFormed('DATABASE_REPLICA_URLS') ? replicaUrlsOf(config) : [];
  for (const [i, url] of replicas.entries()) {
    const fault = faultOfPostgresUrl(url);
    if (fault) yield ['DATABASE_REPLICA_URLS', `address ${i + 1}: ${fault}`];
  }
  const fault = isWellFormed('REDIS_URL') && faultOfRedisUrls(config.REDIS_URL);
  if (fault) yield ['REDIS_URL', fault];
}

/** The configuration as it may be shown: passwords in addresses are replaced. */
export function redact(config: Config): Record<string, string | number> {
  const shown: Record<string, string | number> = { ...config };
  for (const name of ['DATABASE_URL', 'DATABASE_DIRECT_URL', 'DATABASE_REPLICA_URLS', 'REDIS_URL'] as const) {
    shown[name] = config[name]
      .split(/,\s*(?=(?:rediss?|postgres(?:ql)?):\/\/)/)
      .map((address) => withoutSecrets(address.trim()))
      .join(',');
  }
  return shown;
}

function explain(path: string, config: unknown): string {
  const name = path.slice(1).split('/')[0] as keyof typeof Environment.properties | '';
  if (name === '') {
    return Object.keys(Environment.properties)
      .filter((key) => !(key in (config as object)))
      .map((key) => `${key} is required: ${describe(key)}`)
      .join('\n');
  }
  const schema = Environment.properties[name] as {
    type?: string;
    minimum?: number;
    maximum?: number;
    enum?: string[];
  };
  if (schema.minimum !== undefined) {
    const kind = schema.type === 'integer' ? 'whole number' : 'number';
    return `${name} must be a ${kind} from ${schema.minimum} to ${schema.maximum}: ${describe(name)}`;
  }
  if (schema.enum) return `${name} must be one of ${schema.enum.join(', ')}: ${describe(name)}`;
  return `${name} is malformed: ${describe(name)}`;
}

function describe(name: string): string {
  return (Environment.properties as unknown as Record<string, { description: string }>)[name]!.description;
}
