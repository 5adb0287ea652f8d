import type { Lane } from '../postgres/lanes.ts';
import type { Origin } from '../postgres/origin.ts';

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

  /** Returns at most `limit` ids after skipping `skip` ids from `start` on (null: the start). */
  idsFrom(start: string | null, skip: number, limit: number, owner = ''): Promise<string[]> {
    const [$from, $offset, $limit] = this.#own;
    const text = `select id from ${this.#relation} where ${ID} >= ${$from} order by ${ID} offset ${unknown($offset)} limit ${unknown($limit)}`;
    return this.#ids(text, [start ?? '', skip, limit], 'list', owner);
  }

  /** Returns the first `limit` ids from `from` (null: the start) to before `to` (null: the end). */
  idsBetween(from: string | null, to: string | null, limit: number, owner: string): Promise<string[]> {
    const [$from, $to, $limit] = this.#own;
    const text = `select id from ${this.#relation} where ${between($from, $to)} order by ${ID} limit ${unknown($limit)}`;
    return this.#ids(text, [from, to, limit], 'list', owner);
  }

  /**
   * Returns at most `limit` ids at a distance of `stride` from one another, the first `stride` after `start` (null: the
   * start). Fewer than `limit` means that there are no more.
   */
  startsAfter(start: string | null, stride: number, limit: number): Promise<string[]> {
    const [$from, $stride, $limit] = this.#own;
    const after = (id: string) =>
      `(select id from ${this.#relation} where ${ID} >= ${id} order by ${ID} offset ${unknown($stride)} limit 1)`;
    const text = `with recursive starts (id, n) as (
        (select ${after($from)}, 1)
        union all
        select ${after('starts.id')}, n + 1 from starts where starts.id is not null and n < ${$limit}
      )
      select id from starts where id is not null`;
    return this.#ids(text, [start ?? '', stride, limit], 'background');
  }

  /** Counts the ids from each of `from` (null: the start) to before the one of `to` (null: the end), each up to `limit`. */
  async countBetween(from: (string | null)[], to: (string | null)[], limit: number): Promise<number[]> {
    const [$from, $to, $limit] = this.#own;
    const rows = await this.#origin.rows<{ count: number }>(
      `select (
          select count(*)::float8 from (
            select from ${this.#relation} where ${between('bounds.lower', 'bounds.upper')} limit ${$limit}
          ) as counted
        ) as count
        from unnest(${$from}::text[], ${$to}::text[]) with ordinality as bounds (lower, upper, place)
        order by place`,
      [...this.#parameters, from, to, limit],
      '',
      'list',
    );
    return rows.map(({ count }) => count);
  }

  /** Placeholders of the three parameters of each query, after those of the relation. */
  get #own(): [string, string, string] {
    const { length } = this.#parameters;
    return [`$${length + 1}`, `$${length + 2}`, `$${length + 3}`];
  }

  async #ids(text: string, parameters: unknown[], lane: Lane, owner = ''): Promise<string[]> {
    const all = [...this.#parameters, ...parameters];
    const rows = await this.#origin.rows<{ id: string }>(text, all, owner, lane);
    return rows.map(({ id }) => id);
  }
}

function between(from: string, to: string): string {
  return `${ID} >= coalesce(${from}, '') and ${ID} < coalesce(${to}, ${AFTER_ALL})`;
}
