import type { TransactionSql } from 'postgres';
import { IMPORTED_COLUMNS } from './hotel.ts';

/** Number of hotels an import touched; a hotel with several lines counts once, by its last. */
interface Counts {
  inserted: number;
  updated: number;
  unchanged: number;
  deleted: number;
}

const IS_MISSING = 'not exists (select from staged i where i.id = h.id)';
/** Hotels written by one statement, after which the progress is updated. */
const SLICE = 20_000;

const columnsOf = (alias: string, columns: readonly string[] = IMPORTED_COLUMNS) =>
  columns.map((column) => `${alias}.${column}`).join(', ');
const PLAIN = IMPORTED_COLUMNS.filter((column) => column !== 'images');
/** Images as the API shows them: a missing caption is null, other members are omitted. */
const SHOWN_IMAGES = `(
  select coalesce(jsonb_agg(jsonb_build_object('url', image -> 'url', 'caption', image -> 'caption') order by place), '[]')
  from jsonb_array_elements(h.images) with ordinality as stored (image, place))`;

/**
 * Compares the `candidates` of `rejectCollisions` with the hotels, and leaves the temporary table `changes`. For each
 * new or different hotel it has the line, whether it is new, and its position. Writes no hotel.
 */
export async function compare(transaction: TransactionSql, deleteMissing: boolean): Promise<Counts> {
  await transaction.unsafe(`
    create temporary table changes on commit drop as
    select line, h.id is null as is_new, row_number() over (order by line) as place
    from candidates join staged i using (line) left join hotels h on h.id = i.id
    where h.id is null or (${columnsOf('h', PLAIN)}) is distinct from (${columnsOf('i', PLAIN)})
      or (h.images is distinct from i.images and ${SHOWN_IMAGES} is distinct from i.images)`);
  await transaction`analyze changes`;
  const [counts] = await transaction.unsafe<[Counts]>(`
    select count(*) filter (where is_new)::float8 as inserted, count(*) filter (where not is_new)::float8 as updated,
      (select count(*) from candidates)::float8 - count(*)::float8 as unchanged,
      (select count(*) from hotels h where ${deleteMissing} and ${IS_MISSING})::float8 as deleted
    from changes`);
  return counts;
}

/**
 * Applies `changes` to the hotels. An unchanged hotel is neither written nor locked. The caller holds the lock that has
 * excluded other writers of hotels since before `compare`.
 */
export async function write(
  transaction: TransactionSql,
  deleteMissing: boolean,
  { inserted, updated }: Counts,
  onProgress: (hotels: number) => void,
): Promise<void> {
  // deletions come first, to free ids; a rejected line protects its hotel from deletion
  if (deleteMissing) await transaction.unsafe(`delete from hotels h where ${IS_MISSING}`);
  // uniqueness is checked row by row, so exchanged ids are first set to null
  for (const column of updated > 0 ? ['channel_id', 'registry_id'] : []) {
    await transaction.unsafe(`
      update hotels h set ${column} = null from candidates k
      where k.id = h.id and h.${column} is distinct from k.${column}
        and exists (select from candidates c where c.${column} = h.${column})`);
  }
  const columns = IMPORTED_COLUMNS.join(', ');
  for (let from = 0; from < inserted + updated; from += SLICE) {
    const slice = `changes join staged i using (line) where place > ${from} and place <= ${from + SLICE}`;
    if (updated > 0)
      await transaction.unsafe(
        `update hotels h set (${columns}) = row(${columnsOf('i')}) from ${slice} and not is_new and h.id = i.id`,
      );
    if (inserted > 0)
      await transaction.unsafe(
        `insert into hotels (${columns}) select ${columnsOf('i')} from ${slice} and is_new`,
      );
    onProgress(Math.min(inserted + updated, from + SLICE));
  }
}
