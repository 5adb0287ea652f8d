import type { BatchLookup } from '../cache/arena/batch-lookup.ts';
import { PartialResponse } from '../cache/partial-response.ts';
import { publicErrors } from '../errors.ts';
import { EMPTY_ARRAY, joinBodies } from '../hotels/json-array.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { NEEDS_LOAD } from './admission.ts';
import { readBatch } from './batch-body.ts';
import type { Exchange } from './exchange.ts';
import { type HotelSources, loadHotels } from './hotel-sources.ts';
import type { PostRouteDefinition } from './routes.ts';

/** Fewer missed keys are looked up together with those of other requests. */
const JOINED_AT_MOST = 100;

/** Sends the hotels of the ids in a body, as `PostRouteDefinition.respond` does. */
export type SendBatch = (
  exchange: Exchange,
  namespace: Namespace,
  body: Uint8Array,
  mayLoad: boolean,
) => ReturnType<PostRouteDefinition['respond']>;

export function batches(sources: HotelSources): SendBatch {
  const { local, redisBatch, collections } = sources;

  const complete = (
    exchange: Exchange,
    namespace: Namespace,
    result: Uint8Array | PartialResponse,
  ): void | Promise<void> => {
    if (!(result instanceof PartialResponse)) return exchange.ok(result, '');
    const { view } = exchange;
    return loadHotels(sources, exchange, namespace, result.keys).then((found) =>
      exchange.ok(result.complete(found, view), ''),
    );
  };

  /** Reads the body again, because it is wrong or needs what the fast ways lack. */
  const readAndSend = (exchange: Exchange, namespace: Namespace, body: Uint8Array): void | Promise<void> => {
    const batch = readBatch(namespace, body);
    if ('error' in batch) {
      const position = batch.index === undefined ? '' : `\r\nx-error-position: ${batch.index}`;
      return exchange.fail(publicErrors[batch.error], position);
    }
    const { ids } = batch;
    const { collection, view } = exchange.principal!;
    if (ids.length === 0) return exchange.ok(EMPTY_ARRAY, '');
    const lookup = collection === null ? local?.gatherKeys(namespace, ids, view) : undefined;
    if (lookup) return complete(exchange, namespace, resultOf(lookup));
    return loadHotels(sources, exchange, namespace, ids).then((found) =>
      exchange.ok(joinBodies(found, view), ''),
    );
  };

  return (exchange, namespace, body, mayLoad) => {
    const { collection, view } = exchange.principal!;
    if (!mayLoad && exchange.encoding !== undefined) return NEEDS_LOAD;
    const finish = (result: Uint8Array | PartialResponse) => complete(exchange, namespace, result);
    const members = collection === null ? undefined : collections.members(collection);
    const mayGather = collection === null || members !== undefined;
    const lookup = mayGather ? local?.gatherBody(namespace, body, view, mayLoad, members) : undefined;
    if (!mayLoad && !lookup) return NEEDS_LOAD;
    if (lookup) {
      const completed =
        lookup.misses > JOINED_AT_MOST
          ? redisBatch?.complete(namespace, lookup, view, finish, members)
          : undefined;
      return completed ?? finish(resultOf(lookup));
    }
    const fromRedis = mayGather ? redisBatch?.read(namespace, body, view, finish, members) : undefined;
    return fromRedis ?? readAndSend(exchange, namespace, body);
  };
}

function resultOf(lookup: BatchLookup): Uint8Array | PartialResponse {
  return lookup.misses === 0 ? lookup.output : lookup.takePartial();
}
