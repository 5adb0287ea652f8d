import { Unavailable } from '../errors.ts';
import type { Origin } from '../postgres/origin.ts';

/** Number of ids between two that a survey returns. */
export const STRIDE = 200;
/** Sorts after all ids, which have at most 255 characters. */
const AFTER_ALL = 'repeat(chr(1114111), 256)';
const ID = 'id collate "C"';

/**
 * Returns a number of rows that the planner does not know. It then walks the index. With the number and without statistics of
 * the table, it sorts all rows behind the start.
 */
export function unknown(placeholder: string): string {
  return `(select ${placeholder}::bigint)`;
}

/** Ids from the first to before the second, in byte order; null: the start, and the end. */
export type IdRange = readonly [from: string | null, to: string | null];

/** The ids of a range, up to a limit. */
export interface Survey {
  count: number;
  /** each 200th of them, without the first */
  starts: string[];
}

/** Reads ids of hotels in byte order from PostgreSQL. Queries throw `Unavailable`. */
export class IdList {
  readonly #origin: Origin;
  readonly #relation: string;
  readonly #parameters: readonly unknown[];

  /** `relation`: a table or a subquery with a column `id`, which may use these parameters, from $1 on. */
  constructor(origin: Origin, relation: string, parameters: readonly unknown[] = []) {
    this.#origin = origin;
    this.#relation = relation;
    this.#parameters = parameters;
  }

  /** Returns at most `limit` ids of a range, after skipping `skip` of them. */
  async ids([from, to]: IdRange, skip: number, limit: number, owner = ''): Promise<string[]> {
    const [$from, $to, $skip, $limit] = this.#own;
    const text = `select id from ${this.#between($from, $to)} offset ${unknown($skip)} limit ${unknown($limit)}`;
    const rows = await this.#rows<{ id: string }>(text, [from, to, skip, limit], owner);
    return rows.map(({ id }) => id);
  }

  /** Returns what is in these ranges, up to `limit` ids in each. */
  survey(ranges: readonly IdRange[], limit: number): Promise<Survey[]> {
    const [$from, $to, $limit] = this.#own;
    const text = `select coalesce(cardinality(ids), 0)::float8 as count,
        array(select ids[place] from generate_series(${STRIDE + 1}, cardinality(ids), ${STRIDE}) as place) as starts
      from unnest(${$from}::text[], ${$to}::text[]) with ordinality as bounds (lower, upper, number)
      cross join lateral (
        select array_agg(id) as ids
        from (select id from ${this.#between('lower', 'upper')} limit ${unknown($limit)}) as listed
      ) as found order by number`;
    return this.#rows(text, [ranges.map(([from]) => from), ranges.map(([, to]) => to), limit], '');
  }

  /** Placeholders of the parameters of a query, after those of the relation. */
  get #own(): [string, string, string, string] {
    const { length } = this.#parameters;
    return [`$${length + 1}`, `$${length + 2}`, `$${length + 3}`, `$${length + 4}`];
  }

  #between(from: string, to: string): string {
    return `${this.#relation} where ${ID} >= coalesce(${from}, '') and ${ID} < coalesce(${to}, ${AFTER_ALL}) order by ${ID}`;
  }

  #rows<Row>(text: string, parameters: unknown[], owner: string): Promise<Row[]> {
    return this.#origin.rows<Row>(text, [...this.#parameters, ...parameters], owner, 'list');
  }
}

/** Page of the list: ids in byte order, and whether more follow. */
export interface Page {
  ids: readonly string[];
  more: boolean;
  /** number of hotels in the list, if it is known without a query */
  total?: number | undefined;
}

/**
 * Reads a page by a query that skips `offset` ids, from `start` on (null: the start). Throws `Unavailable`, also if the offset
 * exceeds `maxSkip`.
 */
export async function queryPage(
  source: Pick<IdList, 'ids'>,
  maxSkip: number,
  offset: number,
  limit: number,
  owner: string,
  start: string | null = null,
): Promise<Page> {
  if (offset > maxSkip)
    throw new Unavailable(
      `positions over ${maxSkip} are not known: the log cannot be followed, or the collection is not in memory`,
      'postgres_timeout',
    );
  const ids = await source.ids([start, null], offset, limit + 1, owner);
  return { ids: ids.slice(0, limit), more: ids.length > limit };
}
