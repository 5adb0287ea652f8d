import { availableParallelism } from 'node:os';
import { Failure } from '../lib/failure.ts';
import { withAddressFiles } from './address-files.ts';
import {
  faultsOfPostgresUrl,
  faultsOfRedisUrls,
  faultsOfReplicaUrls,
  withoutSecrets,
} from './connection-addresses.ts';

// No schema library: it is larger than the rest of a command, and each command reads the configuration.
interface Variable<Value extends string | number> {
  description: string;
  /** undefined: the variable is required */
  default: Value | undefined;
  /** what a malformed value does not follow */
  rule: string;
  /** returns the value; undefined if it is malformed or out of bounds */
  parse: (given: string) => Value | undefined;
  /** returns what is wrong with a value that was parsed */
  faultsOf?: (value: string) => string[];
}

const text = (
  description: string,
  { pattern, ...options }: Partial<Variable<string>> & { pattern?: RegExp } = {},
): Variable<string> => ({
  ...{ description, default: '', rule: 'is malformed', ...options },
  parse: (given) => (pattern?.test(given) === false ? undefined : given),
});
const numeric =
  (kind: 'number' | 'whole number') =>
  (description: string, fallback: number, minimum: number, maximum: number) => ({
    ...{ description, default: fallback, minimum, maximum },
    rule: `must be a ${kind} from ${minimum} to ${maximum}`,
    parse: (given: string): number | undefined => {
      const value = /^-?\d+(\.\d+)?$/.test(given) ? Number(given) : Number.NaN;
      const isValid = value >= minimum && value <= maximum;
      return isValid && (kind === 'number' || Number.isInteger(value)) ? value : undefined;
    },
  });
const whole = numeric('whole number');
const oneOf = <const Value extends string>(
  values: readonly Value[],
  fallback: NoInfer<Value>,
  description: string,
) => ({
  ...{ description, default: fallback, values, rule: `must be one of ${values.join(', ')}` },
  parse: (given: string) => values.find((value) => value === given),
});

const addressFile = (name: string) =>
  text(
    `File with the value of \`${name}\`, which must then be unset. It is reread every second, so that a login can change`,
  );

const MIB = 1024 * 1024;
const POSTGRES_URL = /^postgres(ql)?:\/\/.+/u;

/** Variables of the service. `npm run build:docs` generates the table of docs/configuration.md from them. */
export const VARIABLES = {
  DATABASE_URL: text(
    'PostgreSQL 15 or newer, or a pooler in front of it: `postgres://user:password@host:5432/database`',
    { default: undefined, pattern: POSTGRES_URL, faultsOf: faultsOfPostgresUrl },
  ),
  DATABASE_REPLICA_URLS: text(
    'Read replicas, separated by commas. What a replica answers is used only if it holds every change that the worker has applied',
    { pattern: /^postgres(ql)?:\/\/[^,]+(,\s*postgres(ql)?:\/\/[^,]+)*$/u, faultsOf: faultsOfReplicaUrls },
  ),
  DATABASE_URL_FILE: addressFile('DATABASE_URL'),
  DATABASE_REPLICA_URLS_FILE: addressFile('DATABASE_REPLICA_URLS'),
  DATABASE_POOL_SIZE: whole('Connections of each worker to PostgreSQL, and to each replica', 8, 1, 100),
  DATABASE_QUEUE_LIMIT: whole(
    'Queries of a worker for one kind of data (hotels, keys, members of collections, lists, changes) that may wait for a connection to one server; up to twice as many if they are of several API keys. Others are rejected with 503',
    200,
    1,
    100_000,
  ),
  DATABASE_TIMEOUT_MS: whole('Deadline of a query, including its wait for a connection', 500, 10, 60_000),
  REDIS_URL: text(
    'Redis or Valkey: `redis://user:password@host:6379/0`, or `rediss://` for TLS. Several addresses, separated by ' +
      'commas, are nodes of a Redis Cluster: same user, password and scheme, no database number',
    { pattern: /^rediss?:\/\/[^,]+( *, *rediss?:\/\/[^,]+)*$/u, faultsOf: faultsOfRedisUrls },
  ),
  REDIS_URL_FILE: addressFile('REDIS_URL'),
  REDIS_TIMEOUT_MS: whole(
    'Deadline of a read of hotels from Redis. Reads of keys and writes have twice as long',
    100,
    5,
    10_000,
  ),
  REDIS_TTL_S: whole(
    'Maximum lifetime of a hotel or key in Redis. Actual lifetimes are spread between half of it and all of it',
    86_400,
    1,
    2_592_000,
  ),
  HOST: text('Address of the API', { default: '0.0.0.0' }),
  PORT: whole('Port of the API', 8080, 1, 65_535),
  ADMIN_HOST: text('Address of the admin port', { default: '0.0.0.0' }),
  ADMIN_PORT: whole(
    'Admin port with `/livez`, `/readyz` and `/metrics`. It must not be public, and differs from `PORT`',
    9090,
    1,
    65_535,
  ),
  WORKERS: whole('Worker processes', availableParallelism(), 1, 256),
  BASE_PATH: text('Prefix of every path of the API, for example `/v1`', {
    pattern: /^(\/[A-Za-z0-9._~-]+)+$/u,
  }),
  PUBLIC_URL: text(
    'Scheme and host that clients use, for example `https://hotels.example.com`. The documentation and the `Link` headers show it; ' +
      'unset, addresses are relative',
    { pattern: /^https?:\/\/[A-Za-z0-9.-]+(:[0-9]{1,5})?$/u },
  ),
  SUPPORT_EMAIL: text('E-mail address for key requests. The documentation shows it', {
    pattern: /^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+$/u,
  }),
  L1_MAX_BYTES: whole(
    "Memory of a worker's local cache, keys and index included. The list and responses take in addition up to 6 MiB, or a fifth of it if that is more. 0 disables the cache",
    256 * MIB,
    0,
    3_072 * MIB,
  ),
  COLLECTIONS_MAX_BYTES: whole(
    'Memory of a worker for the members of the collections in use: 39 bytes per hotel (56 in a collection that has grown), and up to 513 KiB for the list of each. 0: every request with a key of a collection queries PostgreSQL',
    64 * MIB,
    0,
    1_024 * MIB,
  ),
  COMPRESSION: oneOf(
    ['on', 'off'],
    'on',
    'Whether the service compresses. Off suits a proxy in front of it that compresses',
  ),
  CONNECTION_MAX_AGE_S: whole(
    'Mean age at which a busy client connection is closed by a response, so that new instances get their share. 0: never',
    300,
    0,
    86_400,
  ),
  RATE_LIMIT_SCOPE: oneOf(
    ['instance', 'redis'],
    'instance',
    'Whether each instance applies the rate limits of keys by itself, or all instances together, counted in Redis. `redis` needs `REDIS_URL`',
  ),
  WARMUP_TIMEOUT_MS: whole(
    'Maximum time that an instance fills its local caches before it is ready. 0: it starts with empty caches',
    5_000,
    0,
    60_000,
  ),
  DRAIN_WAIT_MS: whole(
    'After SIGTERM: how long an instance, then not ready, still accepts connections',
    3_000,
    0,
    60_000,
  ),
  DRAIN_TIMEOUT_MS: whole('After that: how long requests in progress may take', 8_000, 100, 60_000),
  ACCESS_LOG_SAMPLE: numeric('number')(
    'Share of the fast requests without a 5xx that are logged, at most 1,000 a second for each worker',
    0.001,
    0,
    1,
  ),
  ACCESS_LOG_SLOW_MS: whole(
    'A request that takes at least this long is logged, at most 50 a second for each worker',
    250,
    1,
    60_000,
  ),
  LOG_LEVEL: oneOf(
    ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    'info',
    'Minimum level of log messages',
  ),
};

type Name = keyof typeof VARIABLES;
type ValueOf<Parsed> = Parsed extends Variable<infer Value> ? Value : never;

/** Effective configuration: one frozen record, read once. */
export type Config = { readonly [K in Name]: ValueOf<(typeof VARIABLES)[K]> };

/**
 * Reads the configuration from an environment. An empty variable counts as unset. Throws a `Failure` that names every fault, one a
 * line, with the variable and its bounds, without its value.
 */
export function readConfig(variables: NodeJS.ProcessEnv): Config {
  const [environment, fileFaults] = withAddressFiles(variables);
  const read: Partial<Record<Name, unknown>> = {};
  const faults = new Set(fileFaults);
  for (const name of Object.keys(VARIABLES) as Name[]) {
    const found = readVariable(name, environment[name]?.trim() || undefined);
    for (const fault of found.faults) faults.add(fault);
    read[name] = found.value;
  }
  const config = read as Config;
  if (config.L1_MAX_BYTES > 0 && config.L1_MAX_BYTES < MIB) faults.add(explain('L1_MAX_BYTES'));
  if (config.PORT === config.ADMIN_PORT)
    faults.add('PORT and ADMIN_PORT must differ: the admin port is not for the public');
  if (config.RATE_LIMIT_SCOPE === 'redis' && !config.REDIS_URL)
    faults.add('RATE_LIMIT_SCOPE=redis needs REDIS_URL: the counts are in Redis');
  if (faults.size > 0) throw new Failure([...faults].join('\n'), 2);
  return Object.freeze(config);
}

/** Returns the value of a variable and what is wrong with it; `given` undefined: it is unset. */
export function readVariable(name: Name, given: string | undefined) {
  const variable: Variable<string | number> = VARIABLES[name];
  const value = given === undefined ? variable.default : variable.parse(given);
  if (value === undefined) return { value: given, faults: [explain(name, given !== undefined)] };
  const faults = (given && variable.faultsOf?.(given)) || [];
  return { value, faults: faults.map((fault) => `${name} is malformed: ${fault}`) };
}

/** Returns the configuration; in addresses, user and password, and a parameter `password`, are replaced by `***`. */
export function redact(config: Config): Record<string, string | number> {
  const shown: Record<string, string | number> = { ...config };
  for (const name of ['DATABASE_URL', 'DATABASE_REPLICA_URLS', 'REDIS_URL'] as const) {
    shown[name] = config[name]
      .split(/,\s*(?=(?:rediss?|postgres(?:ql)?):\/\/)/)
      .map((address) => withoutSecrets(address.trim()))
      .join(',');
  }
  return shown;
}

function explain(name: Name, isGiven = true): string {
  const { rule, description } = VARIABLES[name];
  return `${name} ${isGiven ? rule : 'is required'}: ${description}`;
}
