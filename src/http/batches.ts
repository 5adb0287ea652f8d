import { MAX_JOINED } from '../cache/load-batcher.ts';
import { PartialResponse } from '../cache/partial-response.ts';
import { publicErrors } from '../errors.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs } from '../lib/clock.ts';
import { MAX_RESPONSE_BYTES } from '../wasm/constants.ts';
import { MAX_UNSENT_MS, mayStillSee } from './access-control.ts';
import { NEEDS_LOAD, type Pending } from './admission.ts';
import { bodyErrorOf } from './batch-body.ts';
import type { Exchange } from './exchange.ts';
import { type HotelSources, loadHotels } from './hotel-sources.ts';

/** Sends the hotels of the ids in a body, as `PostOperation.respond` does. */
type SendBatch = (exchange: Exchange, namespace: Namespace, body: Uint8Array, mayLoad: boolean) => Pending;

/** Returns what sends batches from these sources. */
export function batches(sources: HotelSources): SendBatch {
  const { access, local, redisBatch, collections, large, sizes } = sources;

  return (exchange, namespace, body, mayLoad) => {
    const before = exchange.principal!;
    const { collection, keyId, view } = before;
    const beganMs = monotonicMs();
    const maxHotels = sizes.atOnce(keyId, MAX_RESPONSE_BYTES);
    if (!mayLoad && exchange.encoding !== undefined) return NEEDS_LOAD;
    const members = collection === null ? undefined : (collections.members(collection) ?? null);
    const lookup = local.gatherBody(namespace, body, view, mayLoad, members);
    if (!lookup) return NEEDS_LOAD;
    const wrong = bodyErrorOf(namespace, lookup);
    if (wrong) {
      const position = wrong.index === undefined ? '' : `\r\nx-error-position: ${wrong.index}`;
      return exchange.fail(publicErrors[wrong.error], position);
    }
    const finish = (result: Uint8Array | PartialResponse, hotels: number): void | Promise<void> => {
      exchange.hotels = hotels;
      if (!(result instanceof PartialResponse)) {
        sizes.note(keyId, hotels, result.length);
        if (monotonicMs() - beganMs < MAX_UNSENT_MS) return exchange.ok(result, '');
        // Redis was slow; its memory is used again meanwhile
        const kept = Buffer.from(result);
        return mayStillSee(access, exchange, before).then((may) => {
          if (may) exchange.ok(kept, '');
        });
      }
      if (exchange.over) return;
      const { keys, isLarge, hitsBytes } = result;
      sizes.note(keyId, hotels, hitsBytes);
      const loading =
        isLarge || keys.length > maxHotels
          ? large.load(exchange, namespace, result)
          : loadHotels(sources, exchange, namespace, keys, hitsBytes);
      return loading.then((found) => {
        if (!found) return;
        for (const hotel of found) if (hotel) exchange.hotels++;
        const body = result.complete(found, view);
        sizes.note(keyId, exchange.hotels, body.length);
        exchange.ok(body, '');
      });
    };
    const completed =
      collection === null && lookup.misses > MAX_JOINED && lookup.misses <= maxHotels
        ? redisBatch?.complete(namespace, lookup, view, finish, () => exchange.over)
        : undefined;
    if (completed) return completed;
    if (lookup.misses === 0) return finish(lookup.output, lookup.hits);
    // nothing of a batch that takes turns is read before its turn: a member may leave the collection meanwhile
    const isWhole = collection !== null && lookup.misses > maxHotels;
    return finish(lookup.takePartial(isWhole), isWhole ? 0 : lookup.hits);
  };
}
