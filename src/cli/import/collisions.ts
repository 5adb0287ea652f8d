import type { TransactionSql } from 'postgres';
import { Failure } from '../../lib/failure.ts';
import { IMPORTED_COLUMNS } from './hotel.ts';

/** Maximum number of checks, each of which compares all lines while writers of hotels wait. */
const MAX_CHECKS = 20;

/** Selects the effective lines: the last valid one of each id. */
const CANDIDATES = `
  select distinct on (id) line, id, channel_id, registry_id
  from staged where fault is null order by id, line desc`;

/**
 * Rejects staged lines that the table would reject, by giving them a fault, so that no line can fail the merge. Leaves the
 * temporary table `candidates`: line and ids of each remaining hotel.
 *
 * Hotels may exchange channel and registry ids within one import, in any order of lines. A value in two lines goes to
 * its present hotel, else to the earlier line. A rejected hotel keeps its present ids, which may invalidate other lines,
 * so the check is repeated until it rejects none. A line that loses to another, which is rejected later, stays rejected:
 * import the file of rejected lines again. Throws `Failure` if it is rejected in a chain of more hotels than `MAX_CHECKS`.
 */
export async function rejectCollisions(transaction: TransactionSql, deleteMissing: boolean): Promise<void> {
  /** Rejects the lines that the query selects with their reasons. Returns true if there are any. */
  const reject = async (query: string): Promise<boolean> => {
    // a line may be selected twice, once for each of its ids
    const { count } = await transaction.unsafe(`
      update staged set fault = reasons
      from (
        select line, string_agg(reason, '; ' order by reason) as reasons from (${query}) as found where reason <> '' group by line
      ) as rejected
      where staged.line = rejected.line`);
    return count > 0;
  };
  await reject(await brokenConstraints(transaction));
  for (let checks = 0; checks < MAX_CHECKS; checks++) {
    await transaction.unsafe(`drop table if exists pg_temp.candidates`);
    await transaction.unsafe(`create temporary table candidates on commit drop as ${CANDIDATES}`);
    await transaction`analyze candidates`;
    if (!(await reject(takenElsewhere(deleteMissing))) && !(await reject(CLAIMED_TWICE))) return;
  }
  throw new Failure(
    `over ${MAX_CHECKS} hotels pass channel or registry ids on to each other, and the last of them to an id that is taken; nothing was imported. Import the end of such a chain first, in a file of its own.`,
  );
}

/** Selects staged lines with the table's own constraints that they violate, which are checked in addition to `readHotel`. */
async function brokenConstraints(transaction: TransactionSql): Promise<string> {
  const [row] = await transaction<[{ reasons: string }]>`
    select string_agg(format('case when (%s) is false then %L end', pg_get_expr(conbin, conrelid),
      'violates the constraint ' || conname), ', ') as reasons
    from pg_constraint where conrelid = 'hotels'::regclass and contype = 'c' and conkey <@ (
      select array_agg(attnum) from pg_attribute where attrelid = 'hotels'::regclass and attname = any(${IMPORTED_COLUMNS}))`;
  return `select line, concat_ws('; ', ${row.reasons}) as reason from staged where fault is null`;
}

/** Selects the lines of a query for each kind of id. */
const byEachId = (query: (column: string) => string) =>
  `${query('channel_id')} union all ${query('registry_id')}`;

/** Selects lines with an id of a hotel outside this import. */
function takenElsewhere(deleteMissing: boolean): string {
  const stays = deleteMissing ? 'and exists (select from staged i where i.id = h.id)' : '';
  return byEachId(
    (column) => `
    select c.line, format('${column} %s belongs to hotel %s', to_json(c.${column}), to_json(h.id)) as reason
    from candidates c join hotels h on h.${column} = c.${column} and h.id <> c.id
    where not exists (select from candidates k where k.id = h.id) ${stays}`,
  );
}

/** Selects all but one of the lines with the same id. */
const CLAIMED_TWICE = byEachId(
  (column) => `
    select line, format('${column} %s goes to hotel %s of line %s', to_json(${column}), to_json(winner), winning_line) as reason
    from (
      select c.*, row_number() over ranked as place, first_value(c.id) over ranked as winner, first_value(c.line) over ranked as winning_line
      from candidates c left join hotels h on h.id = c.id and h.${column} = c.${column}
      where c.${column} in (select ${column} from candidates group by ${column} having count(*) > 1)
      window ranked as (partition by c.${column} order by h.id is null, c.line)
    ) as wanted where place > 1`,
);
