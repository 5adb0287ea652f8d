import type { HotelReader } from '../cache/hotel-reader.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import type { RedisBatchReader } from '../cache/redis-batch/redis-batch.ts';
import type { Collections } from '../collections/collections.ts';
import type { Found } from '../hotels/entry.ts';
import type { HotelSizes } from '../hotels/hotel-sizes.ts';
import { EMPTY_ARRAY } from '../hotels/json-array.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { PageIndex } from '../hotels/page-index.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { EventLoop } from '../lib/event-loop.ts';
import { type AccessControl, CHANGED, MAX_UNSENT_MS, mayStillSee } from './access-control.ts';
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
  sizes: HotelSizes;
  access: Pick<AccessControl, 'mayAnswerNow' | 'mayStillAnswer'>;
  eventLoop: EventLoop;
}

/**
 * Returns the hotels that have these keys and that the request's key may see, else null; undefined if the request was answered,
 * because its key was revoked while they were read. `hitsBytes` of the response are held meanwhile. Throws `Unavailable`.
 */
export async function loadHotels(
  { reader, access, large, collections }: Pick<HotelSources, 'reader' | 'access' | 'large' | 'collections'>,
  exchange: Exchange,
  namespace: Namespace,
  keys: readonly string[],
  hitsBytes = 0,
): Promise<Found[] | undefined> {
  const before = exchange.principal!;
  const beganMs = monotonicMs();
  const { keyId, collection } = before;
  const load = () => reader.load(namespace, keys, keyId, collection);
  const isApart = exchange.releaseLoad && reader.mustWait(keyId);
  let found = await (isApart ? large.loadApart(exchange, hitsBytes, load) : load());
  if (collection !== null && monotonicMs() - beganMs > MAX_UNSENT_MS) {
    // the hits may have left the collection
    if (hitsBytes > EMPTY_ARRAY.length) throw CHANGED;
    found = await collections.onlyMembers(collection, found, keyId);
  }
  if (monotonicMs() - exchange.startedAtMs < MAX_UNSENT_MS) return found;
  return (await mayStillSee(access, exchange, before)) ? found : undefined;
}
