import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Sql, TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';

/** Pause between transactions from which an import counts as killed, even if a pooler keeps its connection to the server. */
const MAX_PAUSE = '1 minute';
const ASK_EVERY_MS = 500;

/** Runs a transaction of the import whose turn it is. Throws a `Failure` if another one has taken the turn meanwhile. */
export type InTransaction = (work: (transaction: TransactionSql) => Promise<void>) => Promise<void>;

/**
 * Runs `work` while no other import runs on this database, so that an older one that ends last overwrites no newer hotels.
 * The turn is a row that expires, not a session, so one connection suffices, also of a pooler. `onWait` is called with a
 * description of the other import if there is one.
 */
export async function inTurn<T>(
  sql: Sql,
  onWait: (other: string) => void,
  work: (inTransaction: InTransaction) => Promise<T>,
): Promise<T> {
  const id = randomUUID();
  for (let isWaiting = false; ; isWaiting = true) {
    const { count } = await sql`
      update hotel_api_importer set import = ${id}, active_at = clock_timestamp(), backend = pg_backend_pid(),
        described = format('%s from %s since %s, backend %s',
          current_user, coalesce(host(inet_client_addr()), 'this host'), now(), pg_backend_pid())
      where ctid in (
        select ctid from hotel_api_importer
        where import is null or active_at < clock_timestamp() - ${MAX_PAUSE}::interval
          or not exists (select from pg_stat_activity where pid = backend)
        for update skip locked)`;
    if (count > 0) break;
    if (!isWaiting) {
      const [holder] = await sql<{ described: string }[]>`select described from hotel_api_importer`;
      onWait(`${holder?.described}`);
    }
    await sleep(ASK_EVERY_MS);
  }
  const inTransaction: InTransaction = async (run) => {
    await sql.begin(async (transaction) => {
      // until it ends, the updated row is locked
      const { count } = await transaction`
        update hotel_api_importer set active_at = clock_timestamp(), backend = pg_backend_pid() where import = ${id}`;
      if (count === 0)
        throw new Failure('another import ran, because this one paused for a minute; nothing was imported.');
      await transaction`set local statement_timeout = 0`;
      // a transaction whose client has disconnected must not keep its locks
      await transaction`set local client_connection_check_interval = '1s'`;
      await run(transaction);
    });
  };
  try {
    return await work(inTransaction);
  } finally {
    // if the connection is lost, the turn ends with it
    await sql`update hotel_api_importer set import = null where import = ${id}`.catch(() => {});
  }
}
