import type { TransactionSql } from 'postgres';
import { rejectWhatCollides } from './collisions.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';
import type { Rejections } from './staging.ts';

/** How many hotels an import touched; a hotel that has several lines counts once, by its last. */
export interface Counts {
  inserted: number;
  updated: number;
  unchanged: number;
  deleted: number;
}

/**
 * Brings `hotels` to what `incoming` says, within the caller's transaction. A hotel that is as it should be is
 * neither written nor locked. Other writers of hotels wait until the transaction ends, readers do not.
 */
export async function merge(
  transaction: TransactionSql,
  { deleteMissing }: { deleteMissing: boolean },
  rejections: Rejections,
): Promise<Counts> {
  await transaction`set local lock_timeout = '30s'`;
  await transaction`lock table hotels in share row exclusive mode`;
  let deleted = 0;
  if (deleteMissing) {
    // First, so that what the deleted had may be given to others. A rejected line still keeps its hotel.
    deleted = (
      await transaction`delete from hotels h where not exists (select from incoming i where i.id = h.id)`
    ).count;
  }
  await rejectWhatCollides(transaction, rejections);

  const columns = IMPORTED_COLUMNS.join(', ');
  const of = (alias: string) => IMPORTED_COLUMNS.map((column) => `${alias}.${column}`).join(', ');
  await transaction.unsafe(`
    create temporary table changes on commit drop as
    select line, h.id is null as is_new
    from candidates join incoming i using (line) left join hotels h on h.id = i.id
    where h.id is null or (${of('h')}) is distinct from (${of('i')})`);
  await transaction`analyze changes`;

  // Uniqueness is judged row by row, so what passes from hotel to hotel is laid down before it is taken up.
  for (const column of ['channel_id', 'registry_id']) {
    await transaction.unsafe(`
      update hotels h set ${column} = null from candidates k
      where k.id = h.id and h.${column} is distinct from k.${column}
        and exists (select from candidates c where c.${column} = h.${column})`);
  }
  const { count: updated } = await transaction.unsafe(`
    update hotels h set (${columns}) = row(${of('i')})
    from changes join incoming i using (line) where not is_new and h.id = i.id`);
  const { count: inserted } = await transaction.unsafe(`
    insert into hotels (${columns}) select ${of('i')} from changes join incoming i using (line) where is_new`);
  const [total] = await transaction`select count(*)::int as count from candidates`;
  return { inserted, updated, unchanged: total!.count - inserted - updated, deleted };
}
