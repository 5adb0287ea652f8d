import type { HotelReader } from '../cache/hotel-reader.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import type { RedisBatchReader } from '../cache/redis-batch/redis-batch.ts';
import type { Collections } from '../collections/collections.ts';
import type { Found } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { PageIndex } from '../hotels/page-index.ts';
import type { Exchange } from './exchange.ts';
import type { LargeBatches } from './large-batches.ts';

/** Parts of a worker from which the operations read hotels. */
export interface HotelSources {
  local: LocalCache;
  redisBatch: RedisBatchReader | undefined;
  reader: HotelReader;
  pageIndex: PageIndex;
  collections: Collections;
  large: LargeBatches;
}

/** Returns the hotels that have these keys and that the request's key may see, else null. Throws `Unavailable`. */
export function loadHotels(
  { reader }: Pick<HotelSources, 'reader'>,
  exchange: Exchange,
  namespace: Namespace,
  keys: readonly string[],
): Promise<Found[]> {
  const { collection, keyId } = exchange.principal!;
  return reader.load(namespace, keys, keyId, collection);
}
