import { Positions } from './page-index.ts';
import type { Origin } from './repository.ts';

/** Up to this offset PostgreSQL counts from the start: that costs less than to look the position up. */
const NEAR = 400;

/** A page of the list: ids in byte order, and whether more come after it. */
export interface Page {
  ids: string[];
  more: boolean;
}

/** The order of all hotels. */
export class Listing {
  readonly positions: Positions;
  readonly #origin: Origin;
  readonly #isLinked: () => boolean;

  /** Positions are looked up only while `isLinked`: otherwise hotels may have come and gone unheard. */
  constructor(origin: Origin, isLinked: () => boolean) {
    this.#origin = origin;
    this.#isLinked = isLinked;
    this.positions = new Positions(origin);
  }

  /** The ids at `offset`, at most `limit`. Throws `Unavailable`. */
  async page(offset: number, limit: number): Promise<Page> {
    const located = offset > NEAR && this.#isLinked() ? await this.positions.locate(offset) : undefined;
    const { mark, skip } = located ?? { mark: null, skip: offset };
    const ids = await this.#origin.idsFrom(mark, skip, limit + 1);
    return { ids: ids.slice(0, limit), more: ids.length > limit };
  }
}
