import type { HotelReader } from '../cache/hotel-reader.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import type { RedisBatchReader } from '../cache/redis-batch/redis-batch.ts';
import type { Collections } from '../collections/collections.ts';
import type { Found } from '../hotels/entry.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { PageIndex } from '../hotels/page-index.ts';
import type { Exchange } from './exchange.ts';

/** Parts of a worker from which the operations read hotels. */
export interface HotelSources {
  local: LocalCache;
  redisBatch: RedisBatchReader | undefined;
  reader: HotelReader;
  pageIndex: PageIndex;
  collections: Collections;
}

/** Number of large hotels that are read at once: at most 4 MiB. */
const LARGE_AT_ONCE = 64;

/**
 * Returns the hotels that have these keys and that the request's key may see, else null. Large ones are read in several
 * iterations of the event loop. Throws `Unavailable`.
 */
export async function loadHotels(
  { reader }: Pick<HotelSources, 'reader'>,
  exchange: Exchange,
  namespace: Namespace,
  keys: readonly string[],
  areLarge = false,
): Promise<Found[]> {
  const { collection, keyId } = exchange.principal!;
  if (!areLarge) return reader.load(namespace, keys, keyId, collection);
  const found: Found[] = [];
  for (let at = 0; at < keys.length && !exchange.over; at += LARGE_AT_ONCE)
    found.push(...(await reader.load(namespace, keys.slice(at, at + LARGE_AT_ONCE), keyId, collection)));
  return found;
}
