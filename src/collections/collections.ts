import type { Found } from '../hotels/entry.ts';
import type { Page } from '../hotels/hotel-list.ts';
import { mayExist } from '../hotels/namespace.ts';
import type { CollectionRepository } from './repository.ts';

/** Which hotels the keys of collections see. Where that is not known, `Unavailable` is thrown. */
export class Collections {
  readonly #repository: CollectionRepository;

  constructor(repository: CollectionRepository) {
    this.#repository = repository;
  }

  /** Those of the ids whose hotels exist and are in the collection. */
  async visibleAmong(collection: string, ids: readonly string[], owner: string): Promise<Set<string>> {
    const possible = ids.filter((id) => mayExist('id', id));
    if (possible.length === 0) return new Set();
    return new Set(await this.#repository.visibleAmong(collection, possible, owner));
  }

  /** True when the hotel exists and is in the collection. */
  async sees(collection: string, id: string, owner: string): Promise<boolean> {
    return (await this.visibleAmong(collection, [id], owner)).has(id);
  }

  /** The hotels with null in the place of those that are outside of the collection. */
  async visibleOf(collection: string, found: Found[], owner: string): Promise<Found[]> {
    const ids = found.flatMap((hotel) => (hotel ? [hotel.id] : []));
    const visible = await this.visibleAmong(collection, ids, owner);
    return found.map((hotel) => (hotel && visible.has(hotel.id) ? hotel : null));
  }

  /** The ids of the collection at `offset`, at most `limit`. */
  async page(collection: string, offset: number, limit: number, owner: string): Promise<Page> {
    const ids = await this.#repository.idsFrom(collection, offset, limit + 1, owner);
    return { ids: ids.slice(0, limit), more: ids.length > limit };
  }
}
