import type { Redis as Client } from 'ioredis';
import type { ValuesReader } from './reply-parser.ts';

/** A value to be set, and its lifetime. */
export type TimedValue = [key: string, value: string | Buffer, ttlMs: number];

/** Uses to be counted in a window: see `COUNT_WINDOW`. */
export interface WindowUse {
  limit: number;
  windowMs: number;
  wanted: number;
}

export interface WindowCount {
  granted: number;
  left: number;
  /** time in ms until the window ends */
  resetInMs: number;
}

/**
 * Interface of the shared cache: one server or a cluster. It may lose, revive and evict any value, so nothing depends on a
 * write. No method throws: a failure is reported as undefined.
 */
export interface RedisStore {
  /** true if it is connected for reading and writing */
  readonly ready: boolean;
  /** Returns the value of a key, null if it has none; undefined if it could not be read. */
  read(key: string): Promise<Buffer | null | undefined>;
  /**
   * Sends an MGET of this many keys, whose reply `reader` reads; undefined if none could be read. `onSent` is called when
   * the command's bytes are no longer needed, unless it was never to be sent.
   */
  sendMget(
    command: Buffer,
    keys: number,
    reader: ValuesReader,
    onSent?: () => void,
  ): Promise<true | undefined>;
  /** Sets values, whatever Redis holds. After a failure some of them are not set. */
  setMany(values: TimedValue[]): Promise<void>;
  /** Counts uses of a key in a window, which begins with its first use; undefined: unknown whether they were counted. */
  countWindow(key: string, use: WindowUse): Promise<WindowCount | undefined>;
  /** Uses another user and password for later connections. */
  useLogin(login: Login): void;
  close(): void;
}

/** What the caches in Redis have in common. */
export interface RedisCacheOptions {
  /** of the names to read and write now. Labels are comparable under one prefix only */
  prefix: () => string;
  /** maximum lifetime of a value */
  ttlMs: number;
  onInvalidValue: () => void;
}

export interface Login {
  username: string | undefined;
  password: string | undefined;
}

/** Returns the login of an address; all addresses of a cluster have the same. */
export function loginOf(addresses: string): Login {
  const { username, password } = new URL(addresses.split(',')[0]!.trim());
  return {
    username: username === '' ? undefined : decodeURIComponent(username),
    password: password === '' ? undefined : decodeURIComponent(password),
  };
}

/** Returns the value in the reply to an MGET of one key; null if there is none, whatever Redis sends. */
export function valueIn(reply: unknown): Buffer | null {
  const value: unknown = Array.isArray(reply) ? reply[0] : null;
  return Buffer.isBuffer(value) ? value : null;
}

/**
 * Script that sets KEYS. ARGV: a value and its lifetime in ms per key. A pipeline of SET commands takes the client three
 * times as long: 8.3 instead of 3.0 µs per value of 1.2 kB.
 */
export const SET_EACH = `
for i = 1, #KEYS do redis.call('set', KEYS[i], ARGV[2 * i - 1], 'PX', ARGV[2 * i]) end`;

/**
 * Script that counts the uses of KEYS[1] in a window. ARGV: the limit, the length of a window in ms, and the uses that are
 * wanted. A window begins with its first use. Returns the uses granted, those left, and the time in ms until the window ends.
 */
export const COUNT_WINDOW = `
local limit = tonumber(ARGV[1])
local used = tonumber(redis.call('get', KEYS[1]) or '')
local endsIn = redis.call('pttl', KEYS[1])
if not used or endsIn <= 0 then
  used = 0
  endsIn = tonumber(ARGV[2])
end
local granted = math.max(0, math.min(tonumber(ARGV[3]), limit - used))
used = used + granted
redis.call('set', KEYS[1], used, 'PX', endsIn)
return {granted, math.max(0, limit - used), endsIn}`;

/** Decodes the reply of `COUNT_WINDOW`; undefined if it is none. */
export function windowCountOf(reply: unknown): WindowCount | undefined {
  if (!Array.isArray(reply) || reply.length !== 3 || !reply.every(Number.isFinite)) return undefined;
  const [granted, left, resetInMs] = reply as [number, number, number];
  return { granted, left, resetInMs };
}

/** Error replies of a server that cannot serve any command at present. */
const UNAVAILABLE_REPLIES = /^(LOADING|MASTERDOWN|CLUSTERDOWN|NOAUTH|WRONGPASS)/;

/**
 * Returns whether an error concerns the whole server; one that rejects a command (READONLY, OOM, NOPERM) serves
 * others.
 */
export function isUnavailable({ name, message }: Error): boolean {
  return name !== 'ReplyError' || UNAVAILABLE_REPLIES.test(message);
}

/** Pause between two attempts to connect. */
const MAX_RETRY_MS = 500;

/**
 * Time in ms for which a connection may owe a response in silence before it is closed. It is at least the
 * deadline of any other command than a read of hotels, and short enough for a recovery within 2 s from a dead connection.
 */
export function silenceMs(timeoutMs: number): number {
  return Math.max(1_000, 2 * timeoutMs);
}

/** Options of every client of Redis: a command without a connection fails immediately. */
export function clientOptions(timeoutMs: number) {
  return {
    protocol: 2 as const,
    socketTimeout: silenceMs(timeoutMs),
    connectTimeout: 500,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableReadyCheck: true,
    // a server that loads its snapshot is retried, whatever remaining time it reports
    maxLoadingRetryTime: MAX_RETRY_MS,
    // CLIENT SETINFO would need a right that nothing else needs and that some versions cannot grant alone
    disableClientInfo: true,
    retryStrategy: reconnectAfterMs,
  };
}

export function reconnectAfterMs(attempt: number): number {
  return Math.min(50 * attempt, MAX_RETRY_MS);
}

/** What ioredis reports of commands when a connection has ended. */
const CONSEQUENCES = /max retries|isn't writeable/;

/**
 * Returns a function that returns the error of a command without a connection, with the reason why the client has none. Listens
 * also because ioredis would print errors that nothing listens to.
 */
export function disconnectionOf(client: Client): () => Error {
  let reason: string | undefined;
  client.on('error', ({ message }) => {
    if (!CONSEQUENCES.test(message)) reason = message;
  });
  client.on('ready', () => {
    reason = undefined;
  });
  return () => new Error(['not connected to Redis', reason].filter(Boolean).join(': '));
}
