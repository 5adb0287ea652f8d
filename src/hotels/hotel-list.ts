import { Unavailable } from '../errors.ts';
import { MAX_SKIP, type Page, PageIndex } from './page-index.ts';
import type { HotelRepository } from './repository.ts';

export type { Page } from './page-index.ts';

/** The order of all hotels. */
export class HotelList {
  readonly index: PageIndex;
  readonly #repository: HotelRepository;
  readonly #isFeedUp: () => boolean;

  /** What is held, at most `maxBytes` of ids, is used only while `isLinked`: else hotels may have come and gone unheard. */
  constructor(origin: HotelRepository, isFeedUp: () => boolean, maxBytes: number) {
    this.#repository = origin;
    this.#isFeedUp = isFeedUp;
    this.index = new PageIndex(origin, maxBytes);
  }

  /** The ids at `offset`, at most `limit`, if they are held. */
  held(offset: number, limit: number): Page | undefined {
    return this.#isFeedUp() ? this.index.held(offset, limit) : undefined;
  }

  /** The ids at `offset`, at most `limit`. Throws `Unavailable`. */
  async page(offset: number, limit: number): Promise<Page> {
    if (this.#isFeedUp()) return this.index.page(offset, limit);
    if (offset > MAX_SKIP)
      throw new Unavailable('positions are not known while the change feed is silent', {
        rejection: 'postgres_unavailable',
      });
    const ids = await this.#repository.idsFrom(null, offset, limit + 1);
    return { ids: ids.slice(0, limit), more: ids.length > limit };
  }
}
