import type { Sql } from 'postgres';
import { Failure } from '../../lib/failure.ts';

/** Key of the lock: one import at a time, so that an older one that ends last overwrites no newer hotels. */
const LOCK = 0x686f74656e;

/**
 * Runs `work` while no other import runs on this database; without `wait` throws a `Failure` that names the other one. A
 * transaction of its own holds the lock, because a pooler does not keep sessions; `sql` needs a second connection.
 */
export async function inTurn<T>(sql: Sql, wait: boolean, work: () => Promise<T>): Promise<T> {
  const done = await sql.begin(async (turn) => {
    await turn`set local idle_in_transaction_session_timeout = 0`;
    const [free] = await turn<[{ taken: boolean }]>`select pg_try_advisory_xact_lock(${LOCK}) as taken`;
    if (free.taken) return { result: await work() };
    const [holder] = await turn<{ described: string }[]>`
      select format('%s from %s since %s, backend %s', usename, coalesce(host(client_addr), 'this host'), xact_start, pid)
        as described
      from pg_locks join pg_stat_activity using (pid)
      where locktype = 'advisory' and granted and (classid::bigint << 32) + objid::bigint = ${LOCK} and database = datid`;
    const other = `another import is running (${holder?.described ?? 'it has just ended'})`;
    if (!wait) throw new Failure(`${other}; nothing was imported. Try again after it.`);
    process.stderr.write(`waiting: ${other}\n`);
    await turn`set local client_connection_check_interval = '1s'`;
    await turn`select pg_advisory_xact_lock(${LOCK})`;
    return { result: await work() };
  });
  return (done as { result: T }).result;
}
