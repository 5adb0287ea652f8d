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
  /** Resolves when the first connections are open, or after `timeoutMs`; returns whether they are. */
  connected(timeoutMs: number): Promise<boolean>;
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
