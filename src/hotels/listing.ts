import type { Origin } from './origin.ts';

/** A page of the list: ids in byte order, and whether more come after it. */
export interface Page {
  ids: string[];
  more: boolean;
}

/** The order of all hotels. */
export class Listing {
  readonly #origin: Origin;

  constructor(origin: Origin) {
    this.#origin = origin;
  }

  /** The ids at `offset`, at most `limit`. Throws `Unavailable`. */
  async page(offset: number, limit: number): Promise<Page> {
    const ids = await this.#origin.idsAt(offset, limit + 1);
    return { ids: ids.slice(0, limit), more: ids.length > limit };
  }
}
