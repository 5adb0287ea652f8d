/** Server under test. */
export interface Target {
  name: TargetName;
  port: number;
  /** root of the process tree of the server */
  pid: number;
  stop(): Promise<unknown>;
  /** of the service: port of /metrics */
  adminPort?: number;
  /** of the upper bound: sets the length of its responses in bytes */
  answerWith?(bodyBytes: number): Promise<void>;
}

export type TargetName = keyof typeof TITLES | `${'workers' | 'limit'}-${number}`;

/** Names in the tables. */
export const TITLES = {
  service: 'this service',
  'service-redis': 'this service, Redis only',
  fastify: 'Fastify + ioredis',
  nginx: 'nginx + Lua',
  'nginx-redis': 'nginx + Lua, Redis only',
  limit: 'upper bound: a constant body',
  bare: 'this service, nothing observed',
  before: 'this service, before it was made faster',
};

/** Environment of the servers under test. */
export interface TargetOptions {
  /** command prefix that pins to their core */
  pin: string[];
  databaseUrl: string;
  /** for the service */
  redisUrl: string;
  /** for the peers: `hotel:<id>` and `hotel:channel:<channel id>` hold JSON */
  peerRedisUrl: string;
  keys: { full: string; narrow: string };
}

/** Returns the command with the prefix that pins it. */
export function pinned(pin: string[], file: string, ...args: string[]): [string, ...string[]] {
  const [first, ...rest] = [...pin, file, ...args];
  return [first!, ...rest];
}
