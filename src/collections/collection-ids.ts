import type { ListSource } from '../hotels/page-index.ts';
import type { Postgres } from '../postgres/client.ts';
import type { Replicas } from '../postgres/replicas.ts';

/** Sorts after all ids, which have at most 255 characters. */
const AFTER_ALL = 'repeat(chr(1114111), 256)';
const ID = 'hotel_id collate "C"';
/** Query of the hotels in the collection $1. */
const VISIBLE = `collection_hotels where collection_id = $1
  and exists (select from hotels where id = hotel_id) and exists (select from collections where id = $1)`;

/** Reads the hotels of one collection from PostgreSQL for its page index. All methods throw `Unavailable`. */
export class CollectionIds implements ListSource {
  readonly #postgres: Postgres | Replicas;
  readonly #collection: string;

  constructor(postgres: Postgres | Replicas, collection: string) {
    this.#postgres = postgres;
    this.#collection = collection;
  }

  idsFrom(start: string | null, skip: number, limit: number): Promise<string[]> {
    const text = `select hotel_id as id from ${VISIBLE} and ${ID} >= $2 order by ${ID} offset $3 limit $4`;
    return this.#ids(text, [start ?? '', skip, limit], 'list');
  }

  idsBetween(from: string | null, to: string | null, most: number): Promise<string[]> {
    const text = `select hotel_id as id from ${VISIBLE} and ${ID} >= $2 and ${ID} < coalesce($3, ${AFTER_ALL})
      order by ${ID} limit $4`;
    return this.#ids(text, [from ?? '', to, most], 'list');
  }

  startsAfter(start: string | null, stride: number, most: number): Promise<string[]> {
    const after = (id: string) =>
      `(select hotel_id from ${VISIBLE} and ${ID} >= ${id} order by ${ID} offset $3 limit 1)`;
    const text = `with recursive starts (id, n) as (
        (select ${after('$2')}, 1)
        union all
        select ${after('starts.id')}, n + 1 from starts where starts.id is not null and n < $4
      )
      select id from starts where id is not null`;
    return this.#ids(text, [start ?? '', stride, most], 'background');
  }

  async countBetween(from: (string | null)[], to: (string | null)[], most: number): Promise<number[]> {
    const rows = await this.#postgres.rows<{ count: number }>(
      `select (
          select count(*)::float8 from (
            select from ${VISIBLE} and ${ID} >= coalesce(bounds.lower, '') and ${ID} < coalesce(bounds.upper, ${AFTER_ALL})
            limit $4
          ) as counted
        ) as count
        from unnest($2::text[], $3::text[]) with ordinality as bounds (lower, upper, place)
        order by place`,
      [this.#collection, from, to, most],
      '',
      'list',
    );
    return rows.map(({ count }) => count);
  }

  async #ids(text: string, parameters: unknown[], lane: 'list' | 'background'): Promise<string[]> {
    const rows = await this.#postgres.rows<{ id: string }>(text, [this.#collection, ...parameters], '', lane);
    return rows.map(({ id }) => id);
  }
}
