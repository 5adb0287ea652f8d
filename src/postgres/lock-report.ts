import { monotonicMs } from '../lib/clock.ts';
import type { Postgres } from './client.ts';

/** Interval of the log lines while a table is locked. */
const LOCK_REPORT_EVERY_MS = 10_000;
/** Maximum number of locks in one line: a lock that is held, and those that wait for it. */
const MAX_LOCKS = 5;

/**
 * The locks that readers wait for. A lock that waits is one too: those that come later wait behind it. An index belongs to its
 * table. `statement` is the first word of the last one; a prepared transaction has no `pid`. The server shows all locks, but the
 * state and the statement of another login only to members of pg_read_all_stats.
 */
const LOCKS = `
  select tables.relname as "table", locks.pid, usename as login, application_name as application, state,
    lower(substring(query from '^\\s*([[:alpha:]]+)')) as statement,
    floor(extract(epoch from now() - coalesce(xact_start, waitstart)))::float8 as seconds,
    to_json(pg_blocking_pids(locks.pid)) as "blockedBy"
  from pg_locks as locks
  join pg_class as tables
    on tables.oid = coalesce((select indrelid from pg_index where indexrelid = locks.relation), locks.relation)
  left join pg_stat_activity as sessions on sessions.pid = locks.pid
  where locks.locktype = 'relation' and locks.mode = 'AccessExclusiveLock'
    and locks.database = (select oid from pg_database where datname = current_database())
    and tables.relnamespace = (select relnamespace from pg_class where oid = to_regclass('hotels'))
    and tables.relname in ('hotels', 'api_keys', 'collections', 'collection_hotels', 'hotel_api_log')
  order by locks.granted desc, waitstart limit ${MAX_LOCKS}`;

/**
 * Returns a function to be called when a query has waited for a lock in vain. It finds out which sessions have locked a table,
 * every 10 s at most.
 */
export function lockReporter(postgres: Postgres, onLocks: (locks: object[]) => void): () => Promise<void> {
  let reportedAtMs = -Infinity;
  return async () => {
    const nowMs = monotonicMs();
    if (nowMs - reportedAtMs < LOCK_REPORT_EVERY_MS) return;
    reportedAtMs = nowMs;
    const query = postgres.rows<object>(LOCKS, [], '', 'background');
    const locks = await query.catch(() => undefined);
    // without an answer, the next query that waits in vain reports it
    if (!locks) reportedAtMs = -Infinity;
    else if (locks.length > 0) onLocks(locks);
  };
}
