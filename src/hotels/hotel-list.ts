import { PageIndex } from './page-index.ts';
import type { HotelRepository } from './repository.ts';

/** Up to this offset PostgreSQL counts from the start: that costs less than to look the position up. */
const NEAR = 400;

/** A page of the list: ids in byte order, and whether more come after it. */
export interface Page {
  ids: string[];
  more: boolean;
}

/** The order of all hotels. */
export class HotelList {
  readonly index: PageIndex;
  readonly #repository: HotelRepository;
  readonly #isFeedUp: () => boolean;

  /** Positions are looked up only while `isLinked`: otherwise hotels may have come and gone unheard. */
  constructor(origin: HotelRepository, isFeedUp: () => boolean) {
    this.#repository = origin;
    this.#isFeedUp = isFeedUp;
    this.index = new PageIndex(origin);
  }

  /** The ids at `offset`, at most `limit`. Throws `Unavailable`. */
  async page(offset: number, limit: number): Promise<Page> {
    const located = offset > NEAR && this.#isFeedUp() ? await this.index.locate(offset) : undefined;
    const { mark, skip } = located ?? { mark: null, skip: offset };
    const ids = await this.#repository.idsFrom(mark, skip, limit + 1);
    return { ids: ids.slice(0, limit), more: ids.length > limit };
  }
}
