import type { Values } from './reply-parser.ts';

/** A value to be stored; `over`: the version that it may replace although that is newer, as text. */
export type Versioned = [key: string, value: Buffer, over?: string | undefined];

/** A value that was refused, by its place, and the newer version that stands there. */
export type Refusal = [place: number, stands: string];

/**
 * The cache that all instances share, as the service uses it: one server or a cluster of them. Nothing here throws:
 * what is away finds nothing and takes nothing, and says so by undefined.
 */
export interface RedisStore {
  /** Resolves when the first connections stand, or after `timeoutMs` without them: whether they do. */
  connected(timeoutMs: number): Promise<boolean>;
  /** What stands under the keys, each with `prefix` before it; undefined when nothing of it could be asked. */
  readMany(keys: readonly string[], prefix: string): Promise<Values | undefined>;
  /**
   * Stores versioned values unless a newer one stands there (see scripts.ts), for half of `ttlMs` to all of it.
   * Returns those that were refused; undefined when not all were sent.
   */
  storeNewer(values: Versioned[], ttlMs: number): Promise<Refusal[] | undefined>;
  /** Sets texts, where `onlyIfNone` only those that have no value yet. Returns undefined when not all were sent. */
  setMany(
    values: [key: string, value: string | Buffer, ttlMs: number][],
    onlyIfNone: boolean,
  ): Promise<true | undefined>;
  /**
   * Removes keys: for values that are no values of ours, whatever version they claim to have. Returns undefined when
   * not all was done.
   */
  remove(keys: string[]): Promise<true | undefined>;
  /** Some of the keys that match a pattern, and the cursor for the next: '0' at the start and when all were seen. */
  scan(cursor: string, pattern: string, count: number): Promise<[cursor: string, keys: string[]] | undefined>;
  /**
   * Leaves a mark behind all that was written before. Returns whether the mark before it was still there (or was evicted), or such a one
   * as `isKept` says: then nothing that was written before that one is lost. Undefined when it could not be left.
   */
  mark(key: string, isKept: (found: string) => boolean, value: string): Promise<boolean | undefined>;
  /** What is evicted when memory is full, as Redis names it; undefined where memory is not limited or the answer is not known. */
  evictionPolicy(): Promise<string | undefined>;
  /** Uses another user and password for the connections that are made from now on. */
  useLogin(login: Login): void;
  close(): void;
}

/** How a connection logs in. */
export interface Login {
  username: string | undefined;
  password: string | undefined;
}

/** The login of an address; the addresses of a cluster have the same. */
export function loginOf(addresses: string): Login {
  const { username, password } = new URL(addresses.split(',')[0]!.trim());
  return {
    username: username === '' ? undefined : decodeURIComponent(username),
    password: password === '' ? undefined : decodeURIComponent(password),
  };
}

/** Replies of a server that can answer nothing at present. */
const UNAVAILABLE_CODES = /^(LOADING|MASTERDOWN|CLUSTERDOWN|NOAUTH|WRONGPASS)/;

/** Whether an error speaks of the server; one that refuses a command (READONLY, OOM, NOPERM) gives good answers to others. */
export function isUnavailable({ name, message }: Error): boolean {
  return name !== 'ReplyError' || UNAVAILABLE_CODES.test(message);
}

/** Between two attempts to reach a server. */
const MAX_RETRY_MS = 500;

/**
 * How long a connection may owe an answer and say nothing before it is given up, in ms: longer than the deadline of any
 * command, and short enough that Redis is used again within 2 s where nothing but the connection is dead.
 */
export function silenceMs(timeoutMs: number): number {
  return Math.max(1_000, 2 * timeoutMs);
}

/** How the clients of Redis behave, whatever they are for: what cannot be had at once is not waited for. */
export function clientOptions(timeoutMs: number) {
  return {
    protocol: 2 as const,
    socketTimeout: silenceMs(timeoutMs),
    connectTimeout: 500,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    enableReadyCheck: true,
    // a server that reads its snapshot is asked again, whatever it thinks how long that takes
    maxLoadingRetryTime: MAX_RETRY_MS,
    // CLIENT SETINFO is a right that nothing else needs, and one that not every version can grant alone
    disableClientInfo: true,
    retryStrategy: retryAfterMs,
  };
}

export function retryAfterMs(attempt: number): number {
  return Math.min(50 * attempt, MAX_RETRY_MS);
}
