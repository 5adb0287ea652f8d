import { Socket } from 'node:net';
import postgres, { type Sql } from 'postgres';
import { postgresTlsOf } from '../config/postgres-tls.ts';
import { monotonicMs, pause, random } from '../lib/clock.ts';

/**
 * Purposes of connections. `pooled`: through a pooler, which passes no settings of a connection, no session and no prepared
 * statement. They are then those of the login; see `requireServingLogin`.
 */
export type Purpose =
  /** queries of the workers, read only */
  | { kind: 'serve'; deadlineMs: number; pooled: boolean }
  /** polls and sequencing of the primary process, with the role that cannot write hotels and keys */
  | { kind: 'follow'; pooled: boolean }
  /** writes the use of keys, for a moment each minute */
  | { kind: 'usage'; pooled: boolean }
  /** the command line, with the rights of its login */
  | { kind: 'operate'; pooled?: boolean };

/** One-dimensional arrays of texts, and of bigints as digits, by their type numbers in PostgreSQL. */
const ARRAYS = {
  text: { to: 1009, from: [1009], serialize: writeArray, parse: readArray },
  bigint: { to: 1016, from: [1016], serialize: writeArray, parse: readArray },
};

/**
 * TCP keepalive of the server: it drops a client that disappeared after 25 s. By the system's defaults it would keep
 * the connection for two hours, and a restarted service would need twice as many.
 */
export const KEEPALIVE = {
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
};

/** Settings that queries, their time and their results depend on. A database or a role may have others. */
export const SETTINGS = {
  DateStyle: 'ISO',
  bytea_output: 'hex',
  extra_float_digits: '1',
  standard_conforming_strings: 'on',
  array_nulls: 'on',
  default_transaction_isolation: 'read committed',
  // without statistics, queries of many parts are compiled, for 500 ms each time
  jit: 'off',
};

/** Settings of the service's own connections. */
const SERVICE_SETTINGS = {
  ...SETTINGS,
  // plans made while a table was small are kept while it grows, up to the next ANALYZE; an index fits both
  enable_seqscan: 'off',
  // plans for any parameters start two processes for each page of a collection: 36 ms instead of 1
  max_parallel_workers_per_gather: '0',
};

/**
 * Returns the settings that queries with this deadline need. A statement has twice the time, because the server counts the
 * time that a busy worker causes too. The wait for a lock ends first, so that the server names the cause.
 */
export function servingSettings(deadlineMs: number) {
  return {
    ...SERVICE_SETTINGS,
    default_transaction_read_only: 'on',
    statement_timeout: `${2 * deadlineMs}ms`,
    lock_timeout: `${Math.ceil(deadlineMs / 2)}ms`,
  };
}

/** Timeouts of sequencing: a large queue takes long, and sequencers wait for each other. */
const FOLLOW_TIMEOUTS = { statement_timeout: '30s', lock_timeout: '5s' };

/**
 * Begins a transaction that writes over a connection to `follow` or `usage`. Behind a pooler the login is read only and has a short
 * timeout by its settings. The whole transaction is to be one message: a process that stops in the middle then holds no lock.
 * If it fails, the connection is of no further use.
 */
export const BEGIN_WRITING = [
  'begin isolation level read committed read write',
  ...Object.entries(FOLLOW_TIMEOUTS).map(([name, value]) => `set local ${name} = '${value}'`),
].join('; ');

/** The role that the migrations create for the service. */
export const SERVING_ROLE = 'hotel_api_serve';

/**
 * Opens a pool of at most `connections` to PostgreSQL; connects lazily. Queries are not pipelined, so a fast query
 * never waits behind a slow one on its connection: callers queue before the pool. A lost server is retried after 200
 * to 400 ms; queries fail meanwhile.
 */
export function openDatabase(address: string, connections: number, purpose: Purpose): Sql {
  const { kind, pooled = false } = purpose;
  const { url, database, ssl } = postgresTlsOf(address);
  const closing = new AbortController();
  const options = {
    ssl,
    ...(database !== '' && { database }),
    socket: socketsOf(connections, closing.signal),
    max: connections,
    max_pipeline: 1,
    max_lifetime: kind === 'serve' ? 1_800 : null,
    backoff: () => retryAfterMs() / 1_000,
    connect_timeout: kind === 'operate' ? 30 : 2,
    onnotice: () => {},
    // postgres.js 3.4 would query the types on each connection, and a connection loss meanwhile ends the process with
    // an unhandled rejection
    ...(kind !== 'operate' && { fetch_types: false, types: ARRAYS }),
    prepare: !pooled,
    connection: { application_name: `hotel-api ${kind}`, ...(!pooled && settingsFor(purpose)) },
  };
  // max_pipeline is missing in the published types
  const sql = postgres(url, options as postgres.Options<Record<string, never>>) as unknown as Sql;
  const { end } = sql;
  return Object.assign(sql, {
    end: (how?: { timeout?: number }) => end(how).finally(() => closing.abort()),
  });
}

/** What postgres.js passes to its option `socket`. */
interface Target {
  host: string[];
  /** one for each host */
  port: number[];
  /** of a Unix socket */
  path: string | false;
}

/** Number of the host with which a new pool begins, by hosts: one that did not answer is left by all of them. */
const firstHosts = new Map<string, number>();

/**
 * Returns the option `socket` of a pool, until it is closed. A peer that accepts a connection and ends it without an answer,
 * like a proxy without a server behind it, fails the query that needed it: postgres.js 3.4 would try again without a pause
 * and never fail the query. It also does so for several hosts, or after an answer. Therefore a pool opens at most as many
 * connections in 200 to 400 ms as it may hold, times the number of its hosts.
 */
function socketsOf(connections: number, closed: AbortSignal): (target: Target) => Promise<Socket> {
  /** times of the last connections, some of them in the future */
  const openedAtMs: number[] = [];
  /** number of the host that is used; the next one after the end of a connection to it */
  let present: number | undefined;
  return async ({ host, port, path }) => {
    const nowMs = monotonicMs();
    const before = openedAtMs.length < connections * host.length ? -Infinity : openedAtMs.shift()!;
    const dueAtMs = Math.max(nowMs, before + retryAfterMs());
    openedAtMs.push(dueAtMs);
    if (dueAtMs > nowMs) await pause(dueAtMs - nowMs, closed);
    closed.throwIfAborted();
    const name = JSON.stringify([host, port]);
    present ??= firstHosts.get(name) ?? 0;
    const at = present;
    const socket = new Socket();
    // postgres.js removes every listener of a socket before a handshake of TLS
    socket._destroy = (error, done) => {
      const next = (at + 1) % host.length;
      if (present === at) present = next;
      if (socket.bytesRead === 0 && (firstHosts.get(name) ?? 0) === at) firstHosts.set(name, next);
      Socket.prototype._destroy.call(socket, error, done);
    };
    if (path) socket.connect(path);
    else socket.connect(port[at]!, host[at]!);
    // postgres.js checks the certificate against it
    Object.assign(socket, { host: host[at], port: port[at] });
    return socket.once('end', () => {
      const error = new Error('the server, or a proxy before it, ended the connection without an answer');
      if (socket.bytesRead === 0) socket.destroy(Object.assign(error, { code: 'CONNECTION_UNANSWERED' }));
    });
  };
}

/** Returns a pause before a lost server is tried again. Instances spread their tries. */
export function retryAfterMs(): number {
  return 200 + random() * 200;
}

function settingsFor(purpose: Purpose): Record<string, string> {
  // a pause between requests ends no connection
  const always = { idle_session_timeout: '0' };
  if (purpose.kind === 'operate') {
    // commands take long, and wait for each other
    const timeouts = { statement_timeout: '0', lock_timeout: '0' };
    return { ...SETTINGS, default_transaction_read_only: 'off', ...timeouts, ...always };
  }
  const settings =
    purpose.kind === 'serve'
      ? servingSettings(purpose.deadlineMs)
      : { ...SERVICE_SETTINGS, default_transaction_read_only: 'off', ...FOLLOW_TIMEOUTS };
  return { ...settings, role: SERVING_ROLE, ...always, ...KEEPALIVE };
}

function writeArray(items: readonly (string | null)[] | string): string {
  // postgres.js writes a parameter again if it repeats a query because a table has changed
  if (typeof items === 'string') return items;
  const texts = items.map((item) => (item === null ? 'NULL' : `"${item.replace(/["\\]/g, '\\$&')}"`));
  return `{${texts.join(',')}}`;
}

function readArray(text: string): (string | null)[] {
  const items: (string | null)[] = [];
  for (const [, quoted, bare] of text.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|([^,]+)/gs)) {
    if (quoted !== undefined) items.push(quoted.replace(/\\(.)/gs, '$1'));
    else items.push(bare === 'NULL' ? null : bare!);
  }
  return items;
}

/**
 * Returns the rows of a result as PostgreSQL sent them; throws if it sent no result. With postgres.js 3.4, a query
 * written between the error and the end of a connection gets a result without command and rows after the reconnect. It
 * would read as absent hotels. A query that follows a failed one on the same connection may have holes before its rows
 * (porsager/postgres, issues 1119 and 1181).
 */
export function completed<Rows>(rows: Rows): Rows {
  const { length, count, command } = rows as { length?: number; count?: number; command?: string | null };
  if (command === null)
    throw Object.assign(new Error('the connection was lost before the query was sent'), {
      code: 'CONNECTION_CLOSED',
    });
  return !Array.isArray(rows) || length === count ? rows : (rows.filter(() => true) as Rows);
}
