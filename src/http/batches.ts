import { MAX_JOINED } from '../cache/load-batcher.ts';
import { PartialResponse } from '../cache/partial-response.ts';
import { publicErrors } from '../errors.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { NEEDS_LOAD } from './admission.ts';
import { bodyErrorOf } from './batch-body.ts';
import type { Exchange } from './exchange.ts';
import { type HotelSources, loadHotels } from './hotel-sources.ts';
import type { Pending } from './routes.ts';

/** Sends the hotels of the ids in a body, as `PostRouteDefinition.respond` does. */
type SendBatch = (exchange: Exchange, namespace: Namespace, body: Uint8Array, mayLoad: boolean) => Pending;

export function batches(sources: HotelSources): SendBatch {
  const { local, redisBatch, collections, atOnce, large } = sources;

  return (exchange, namespace, body, mayLoad) => {
    const { collection, view } = exchange.principal!;
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
      if (!(result instanceof PartialResponse)) return exchange.ok(result, '');
      if (exchange.over) return;
      const { keys, isLarge } = result;
      const loading =
        isLarge || keys.length > atOnce.most
          ? large.load(exchange, namespace, keys)
          : loadHotels(sources, exchange, namespace, keys);
      return loading.then((found) => {
        if (!found) return;
        for (const hotel of found) if (hotel) exchange.hotels++;
        exchange.ok(result.complete(found, view), '');
      });
    };
    const completed =
      collection === null && lookup.misses > MAX_JOINED && lookup.misses <= atOnce.most
        ? redisBatch?.complete(namespace, lookup, view, finish, exchange)
        : undefined;
    return completed ?? finish(lookup.misses === 0 ? lookup.output : lookup.takePartial(), lookup.hits);
  };
}
