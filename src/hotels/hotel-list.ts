import { Unavailable } from '../errors.ts';
import type { IdList } from './id-list.ts';
import { MAX_SKIP, type Page, PageIndex } from './page-index.ts';

export type { Page } from './page-index.ts';

/** List of all hotels in byte order of their ids. */
export class HotelList {
  readonly index: PageIndex;
  readonly #ids: IdList;
  readonly #mayServe: () => boolean;

  /** Caches at most `maxBytes` of ids, which are used only while `mayServe` returns true. */
  constructor(ids: IdList, mayServe: () => boolean, maxBytes: number) {
    this.#ids = ids;
    this.#mayServe = mayServe;
    this.index = new PageIndex(ids, maxBytes);
  }

  /** Returns at most `limit` ids at `offset`, if they are cached. */
  cachedPage(offset: number, limit: number): Page | undefined {
    return this.#mayServe() ? this.index.cachedPage(offset, limit) : undefined;
  }

  /** Returns at most `limit` ids at `offset`; with `isCurrent`, as they are in PostgreSQL. Throws `Unavailable`. */
  async page(offset: number, limit: number, isCurrent: boolean): Promise<Page> {
    if (this.#mayServe()) return this.index.page(offset, limit, isCurrent);
    if (offset > MAX_SKIP)
      throw new Unavailable('positions are not known while the log cannot be followed', {
        rejection: 'postgres_unavailable',
      });
    const ids = await this.#ids.idsFrom(null, offset, limit + 1);
    return { ids: ids.slice(0, limit), more: ids.length > limit };
  }
}
