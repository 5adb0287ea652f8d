import { TLS_FAULT } from '../config/postgres-tls.ts';
import { Unavailable } from '../errors.ts';
import { DeadlineExceeded } from '../lib/deadline.ts';

/**
 * SQLSTATE classes and codes of an unavailable server: connection, login, resources, operator intervention, and a
 * database that is renamed or closed during its replacement.
 */
const UNAVAILABLE_SQLSTATES = /^(08|28|53|57P0|3D000|55000)/;
/** Errors of postgres.js and of sockets with the same meaning. */
export const LOST = /^(CONNECT|CONNECTION_|ECONN|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_|EHOSTUNREACH|ENETUNREACH)/;
/**
 * Errors of a connection that ended while a query used it, or before it noticed. They say nothing about the server: it may
 * have restarted while this process was stopped.
 */
export const ENDED = /^(CONNECTION_(CLOSED|DESTROYED)|ECONNRESET|EPIPE|57P01)$/;
/** The table was replaced, as by `pg_restore --clean`, while the query waited for its lock: an internal error of PostgreSQL. */
const REPLACED = /^could not open relation with OID /;
/** statement_timeout: the server is available, the query was too slow */
const TOO_SLOW = '57014';
/** lock_timeout: another session has locked a table */
const LOCKED = '55P03';

/**
 * Meaning of an error of a query: the server or the path to it is unavailable, has not answered in time, has ended the statement at
 * its timeout or at that of a lock, or rejects the statement.
 */
export type QueryFailure = 'outage' | 'unanswered' | 'late' | 'locked' | 'rejected';

/** Returns the meaning of an error of postgres.js, of a socket or of the server; undefined for an error of this process. */
export function failureOf(error: unknown): QueryFailure | undefined {
  if (error instanceof DeadlineExceeded) return 'unanswered';
  const { code = '', message, severity, syscall } = error as Error & Record<string, string | undefined>;
  if (code === TOO_SLOW) return 'late';
  if (code === LOCKED) return 'locked';
  // every failed login is fatal, and every error of a socket has a system call
  const isLost = severity === 'FATAL' || syscall !== undefined;
  const isReplaced = code === 'XX000' && REPLACED.test(message);
  if (isLost || isReplaced || [UNAVAILABLE_SQLSTATES, LOST, TLS_FAULT].some((codes) => codes.test(code)))
    return 'outage';
  // only errors of the server have a severity
  return severity === undefined ? undefined : 'rejected';
}

/** Returns true if the connection of a query had ended, which was reported as the cause of `error`. */
export function hasEnded(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as { code?: string };
  return ENDED.test(code ?? '');
}

/** Returns true if a query waited for the lock of a table in vain. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Unavailable && error.rejection === 'postgres_locked';
}
