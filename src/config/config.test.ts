import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { Failure } from '../lib/failure.ts';
import { type Config, readConfig, redact } from './config.ts';

const REQUIRED = { DATABASE_URL: 'postgres://user:secret@host:5432/hotels' };

function faultsOf(environment: Record<string, string>): string[] {
  try {
    readConfig(environment);
  } catch (error) {
    expect(error).toBeInstanceOf(Failure);
    return (error as Error).message.split('\n');
  }
  return [];
}

describe('the configuration', () => {
  it('requires only the address of PostgreSQL', () => {
    // docs/configuration.md lists the defaults, and a test compares them
    expect(readConfig(REQUIRED)).toMatchObject({
      ...REQUIRED,
      REDIS_URL: '',
      WORKERS: availableParallelism(),
    });
  });

  it('treats an empty variable as unset, and trims the others', () => {
    const variables = { PORT: '', REDIS_URL: ' ', LOG_LEVEL: ' warn ', WORKERS: ' 3\n' };
    const expected = { PORT: 8080, REDIS_URL: '', LOG_LEVEL: 'warn', WORKERS: 3 };
    expect(readConfig({ ...REQUIRED, ...variables })).toMatchObject(expected);
  });

  it.each([
    { PORT: '65535', ADMIN_PORT: '1' },
    { BASE_PATH: '/v1/eu.west-1_~' },
    { L1_MAX_BYTES: '0' },
    { L1_MAX_BYTES: '1048576' },
    { REDIS_URL: 'rediss://:p@h:6379/1' },
    { REDIS_URL: 'redis://a:7000,redis://b/0, redis://[::1]:7002/' },
    { REDIS_URL: 'rediss://u:p@a,rediss://u:p@b' },
    { DATABASE_URL: 'postgresql://h/d' },
    { DATABASE_URL: 'postgres:///d' },
    { DATABASE_URL: 'postgres://u:100%25%2F%23@h/d' },
    { DATABASE_URL: 'postgres://u:p@p@h:5432/d?sslmode=require' },
    { DATABASE_URL: 'postgres://u:p,q@h/d' },
    { DATABASE_URL: 'postgres://u:p@h1:5432,h2:5433,h3/d?target_session_attrs=primary' },
    { DATABASE_URL: 'postgres://h1,h2/d' },
    { DRAIN_WAIT_MS: '0' },
    { ACCESS_LOG_SAMPLE: '0.25' },
    { ACCESS_LOG_SAMPLE: '1' },
  ])('takes %o', (variables) => {
    const config = readConfig({ ...REQUIRED, ...variables } as NodeJS.ProcessEnv);
    for (const [name, value] of Object.entries(variables)) {
      expect(String(config[name as keyof Config])).toBe(value);
    }
  });

  it.each<[sentence: string, ...values: string[]]>([
    ['PORT must be a whole number from 1 to 65535', '0', '65536', '80.5', '1e3'],
    ['WORKERS must be a whole number from 1 to 256', '-1'],
    ['L1_MAX_BYTES must be a whole number', '1000'],
    ['DATABASE_TIMEOUT_MS must be a whole number', '99999999999999999999'],
    ['ACCESS_LOG_SAMPLE must be a number from 0 to 1: ', '1.5'],
    ['LOG_LEVEL must be one of trace, debug, info, warn, error, fatal, silent', 'loud'],
    ['RATE_LIMIT_SCOPE=redis needs REDIS_URL', 'redis'],
    ['RATE_LIMIT_SCOPE must be one of instance, redis', 'all'],
    ['BASE_PATH is malformed', 'v1', '/v1/'],
    ['DATABASE_URL is required', ''],
    ['DATABASE_URL is malformed', 'mysql://h/d'],
    [
      'DATABASE_URL is malformed: of the parameters of TLS, only sslmode, ',
      ...['postgres://h/d?ssl=true', 'postgres://h/d?SSLMODE=require'],
      ...['postgres://h/d?sslmode=require&ssl=1', 'postgres://h/d?sslcrl=/f'],
    ],
    [
      'DATABASE_URL is malformed: check its host and port',
      ...['postgres://u:hunter/2@h/d', 'postgres://u:2#hunter@h/d', 'postgres://h:70000/d'],
    ],
    ['DATABASE_URL is malformed: a % that encodes nothing', 'postgres://u:100%@h/d'],
    [
      'DATABASE_URL is malformed: its hosts cannot be read',
      ...['postgres://u:p@h1,h2:port/d', 'postgres://u:p@h1,,h2/d', 'postgres://u:p@q@h1,h2/d'],
    ],
    ['DATABASE_REPLICA_URLS is malformed', 'postgres://a/d,b'],
    ['DATABASE_REPLICA_URLS is malformed: address 2: a % ', 'postgres://a/d, postgres://u:100%@b/d'],
    [
      'REDIS_URL is malformed',
      ...['http://h', 'redis://a,b', 'redis://a,rediss://b', 'redis://u:p@a,redis://u:q@b'],
      'redis://a/1,redis://b/1',
    ],
    ['REDIS_URL is malformed: a % ', 'redis://u:100%@h', 'redis://u:100%@a,redis://u:100%@b'],
    ['REDIS_URL is malformed: what follows the host must be the number', 'redis://h/cache'],
  ])('rejects values, and describes the variable: %s', (sentence, ...values) => {
    const [name] = /^\w+/.exec(sentence)!;
    for (const value of values) {
      const faults = faultsOf({ ...REQUIRED, [name]: value });
      expect(faults).toEqual([expect.stringContaining(sentence)]);
      expect(faults[0]).toMatch(/: \S+/);
      expect(faults[0]).not.toMatch(/hunter|100%/);
    }
  });

  it('reports all faults at once, without values', () => {
    const wrong = {
      ...{ REDIS_URL: 'http://:hunter2@h', PORT: 'sekret', WORKERS: '0' },
      ...{ L1_MAX_BYTES: '5', BASE_PATH: 'hunter2', LOG_LEVEL: 'hunter2' },
    };
    const faults = faultsOf(wrong);
    expect(faults.map((fault) => fault.split(' ')[0]).sort()).toEqual(
      [...Object.keys(wrong), 'DATABASE_URL'].sort(),
    );
    expect(faults.join()).not.toMatch(/hunter2|sekret/);
  });
});

it.each([
  ['postgres://user:hunter2@host:5432/hotels', 'postgres://***@host:5432/hotels'],
  ['postgres://user:hun@ter2@host/hotels', 'postgres://***@host/hotels'],
  ['postgres://user:hun\nter2@host/hotels', 'postgres://***@host/hotels'],
  ['postgres://user:hun/ter2@host/hotels', 'postgres://***@host/hotels'],
  [
    'postgresql://host/hotels?password=hunter2&sslmode=require',
    'postgresql://host/hotels?password=***&sslmode=require',
  ],
  ['postgres://host/hotels', 'postgres://host/hotels'],
])('the redacted configuration shows %s as %s, and all else but passwords unchanged', (url, shown) => {
  const [REDIS_URL, DATABASE_REPLICA_URLS] = ['redis://:hunter2@h/1', `${url}, postgresql://u:hunter2@h/d`];
  const config = { ...readConfig(REQUIRED), DATABASE_URL: url, REDIS_URL, DATABASE_REPLICA_URLS };
  expect(redact(config)).toEqual({
    ...{ ...config, DATABASE_URL: shown, REDIS_URL: 'redis://***@h/1' },
    DATABASE_REPLICA_URLS: `${shown},postgresql://***@h/d`,
  });
});
