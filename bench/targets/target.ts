/** A server under test. */
export interface Target {
  name: TargetName;
  port: number;
  /** its processes are this one and all that it started */
  pid: number;
  stop(): Promise<unknown>;
  /** of the service: for /metrics */
  adminPort?: number;
  /** of the limit: the length of its constant answers from now on, in bytes */
  answerWith?(bodyBytes: number): Promise<void>;
}

export type TargetName = keyof typeof TITLES;

/** What the tables call them. */
export const TITLES = {
  service: 'this service',
  'service-redis': 'this service, Redis only',
  fastify: 'Fastify + ioredis',
  nginx: 'nginx + Lua',
  'nginx-redis': 'nginx + Lua, Redis only',
  limit: 'the limit: a constant body',
  bare: 'this service, nothing observed',
};

/** What servers under test need. */
export interface TargetOptions {
  /** words before a command that put it on the core of the servers under test */
  pin: string[];
  databaseUrl: string;
  /** of the service */
  redisUrl: string;
  /** of the peers: `hotel:<id>` and `hotel:channel:<channel id>` hold JSON */
  peerRedisUrl: string;
  keys: { full: string; narrow: string };
}

/** The command, on the core of the servers under test. */
export function pinned(pin: string[], file: string, ...args: string[]): [string, ...string[]] {
  const [first, ...rest] = [...pin, file, ...args];
  return [first!, ...rest];
}
