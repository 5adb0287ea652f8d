import type { TransactionSql } from 'postgres';

/**
 * Waits until no other import runs on this database, so that an older one that ends last overwrites no newer hotels. The turn
 * is a lock that ends with the transaction, so one connection suffices, also of a pooler. `onWait` is called with a
 * description of the other import if there is one.
 */
export async function takeTurn(transaction: TransactionSql, onWait: (other: string) => void): Promise<void> {
  const [other] = await transaction<{ described: string }[]>`
    select format('%s from %s since %s, backend %s', usename, coalesce(host(client_addr), 'this host'), xact_start, pid)
      as described
    from pg_stat_activity join pg_locks using (pid)
    where locktype = 'relation' and relation = 'hotel_api_importer'::regclass and granted
      and datname = current_database() and pid <> pg_backend_pid() limit 1`;
  if (other) onWait(other.described);
  await transaction`lock table hotel_api_importer in exclusive mode`;
}
