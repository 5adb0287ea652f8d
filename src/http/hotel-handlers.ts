import { ABSENT, type CacheArena } from '../cache/arena/arena.ts';
import type { BatchLookup } from '../cache/arena/batch-lookup.ts';
import type { HotelReader } from '../cache/hotel-reader.ts';
import type { LocalCache } from '../cache/local-cache.ts';
import { PartialResponse } from '../cache/partial-response.ts';
import type { RedisBatchReader } from '../cache/redis-batch/redis-batch.ts';
import type { Collections } from '../collections/collections.ts';
import { publicErrors } from '../errors.ts';
import type { HotelList, Page } from '../hotels/hotel-list.ts';
import { EMPTY_ARRAY, joinBodies } from '../hotels/json-array.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { NEEDS_LOAD } from './admission.ts';
import { readBatch } from './batch-body.ts';
import type { ChangesInput } from './changes-handler.ts';
import type { CompressedPages } from './compressed-pages.ts';
import { compressNow, type Encoding, isWorthwhile, MIN_COMPRESSED_BYTES } from './compression.ts';
import { listTagOf } from './etag.ts';
import type { Exchange } from './exchange.ts';
import { decodeParameter, readRegistryId } from './ids.ts';
import { hasRegistryId, readListQuery } from './query.ts';
import type { GetRouteDefinition, PostRouteDefinition } from './routes.ts';

/** Operations of the contract, called by the pipeline. */
export interface Operations {
  changes: GetRouteDefinition<ChangesInput>;
  list: GetRouteDefinition<string>;
  hotel: GetRouteDefinition<string>;
  hotelByChannel: GetRouteDefinition<string>;
  hotelByRegistry: GetRouteDefinition<string>;
  batchByChannel: PostRouteDefinition;
  batchByRegistry: PostRouteDefinition;
}

/** Fewer missed keys are looked up together with those of other requests. */
const JOINED_AT_MOST = 100;

/** Marks a hotel whose JSON hardly shrinks. */
const NOT_WORTHWHILE = new Uint8Array(0);

/** Creates the operations. `address` precedes the paths of Link headers: a base path or a whole address. */
export function operationsOn(
  local: LocalCache | undefined,
  redisBatch: RedisBatchReader | undefined,
  reader: HotelReader,
  hotelList: HotelList,
  collections: Collections,
  address: string,
  compressedPages: CompressedPages | undefined,
): Omit<Operations, 'changes'> {
  /** Returns the hotels that have these keys and that the request's key may see, else null. */
  const load = (exchange: Exchange, namespace: Namespace, keys: readonly string[]) => {
    const { collection, keyId } = exchange.principal!;
    return reader.load(namespace, keys, keyId, collection);
  };

  const handleSingle = (exchange: Exchange, namespace: Namespace, key: string | undefined) => {
    if (key === undefined) return exchange.fail(publicErrors.hotelNotFound);
    const { collection } = exchange.principal!;
    if (collection !== null) return handleSingleWithin(exchange, collection, namespace, key);
    if (local) {
      const ref = local.find(namespace, key, exchange.nowMs);
      if (ref > 0) return sendCached(exchange, local.arena, ref);
      if (ref === ABSENT) return exchange.fail(publicErrors.hotelNotFound);
    }
    return loadSingle(exchange, namespace, key);
  };
  const handleSingleWithin = (exchange: Exchange, collection: string, namespace: Namespace, key: string) => {
    const members = collections.members(collection, exchange.nowMs);
    if (members?.isOutside(namespace, key)) return exchange.fail(publicErrors.hotelNotFound);
    if (members && local) {
      const ref = local.find(namespace, key, exchange.nowMs);
      if (ref > 0 && (namespace === 'id' || local.arena.isAmong(ref, members)))
        return sendCached(exchange, local.arena, ref);
    }
    // a hotel outside is loaded like one that does not exist, though a cache may hold either
    return loadSingle(exchange, namespace, key);
  };
  const loadSingle = async (exchange: Exchange, namespace: Namespace, key: string) => {
    const [hotel] = await load(exchange, namespace, [key]);
    if (!hotel) return exchange.fail(publicErrors.hotelNotFound);
    const { encoding } = exchange;
    const [body, tag] = [hotel.body(exchange.view), hotel.tag(exchange.view)];
    const compressed = encoding && compressHotel(body, encoding);
    if (compressed) exchange.okEncoded(compressed, tag, encoding);
    else exchange.okEncoded(body, tag, undefined);
  };

  /**
   * Sends the JSON array of the hotels with these keys. The bytes are valid until the next lookup in the local cache,
   * so they are sent in the same event-loop iteration.
   */
  const sendMany = (
    exchange: Exchange,
    namespace: Namespace,
    keys: string[],
    send: (body: Uint8Array) => void,
  ) => {
    const { collection, view } = exchange.principal!;
    if (keys.length === 0) return send(EMPTY_ARRAY);
    const batchLookup = collection === null ? local?.gatherKeys(namespace, keys, view) : undefined;
    if (batchLookup) return sendCompleted(exchange, namespace, resultOf(batchLookup), send);
    return load(exchange, namespace, keys).then((found) => send(joinBodies(found, view)));
  };
  const sendCompleted = (
    exchange: Exchange,
    namespace: Namespace,
    result: Uint8Array | PartialResponse,
    send: (body: Uint8Array) => void,
  ) => {
    if (!(result instanceof PartialResponse)) return send(result);
    const { view } = exchange;
    return load(exchange, namespace, result.keys).then((found) => send(result.complete(found, view)));
  };

  const handleBatch = (
    exchange: Exchange,
    namespace: 'channel' | 'registry',
    body: Uint8Array,
    mayLoad: boolean,
  ) => {
    const { collection, view } = exchange.principal!;
    if (!mayLoad && exchange.encoding !== undefined) return NEEDS_LOAD;
    const send = (result: Uint8Array) => exchange.ok(result, '');
    const finish = (result: Uint8Array | PartialResponse) => sendCompleted(exchange, namespace, result, send);
    const members = collection === null ? undefined : collections.members(collection);
    const mayGather = collection === null || members !== undefined;
    const batchLookup = mayGather ? local?.gatherBody(namespace, body, view, mayLoad, members) : undefined;
    if (!mayLoad && !batchLookup) return NEEDS_LOAD;
    if (batchLookup) {
      const completed =
        batchLookup.misses > JOINED_AT_MOST
          ? redisBatch?.complete(namespace, batchLookup, view, finish, members)
          : undefined;
      return completed ?? finish(resultOf(batchLookup));
    }
    const fromRedis = mayGather ? redisBatch?.read(namespace, body, view, finish, members) : undefined;
    if (fromRedis) return fromRedis;
    const batch = readBatch(namespace, body);
    if ('error' in batch) {
      const position = batch.index === undefined ? '' : `\r\nx-error-position: ${batch.index}`;
      return exchange.fail(publicErrors[batch.error], position);
    }
    return sendMany(exchange, namespace, batch.ids, send);
  };

  const handleList = (exchange: Exchange, text: string) => {
    const query = readListQuery(text);
    if ('error' in query) return exchange.fail(publicErrors[query.error]);
    const { limit, offset, registryId } = query;
    const { collection, keyId } = exchange.principal!;
    if (registryId !== undefined) return sendList(exchange, 'registry', offset > 0 ? [] : [registryId]);
    const cachedPage = (): Page | undefined =>
      collection === null
        ? hotelList.cachedPage(offset, limit)
        : collections.cachedPage(collection, offset, limit);
    const read = (isCurrent = false): Promise<Page> =>
      collection === null
        ? hotelList.page(offset, limit, isCurrent)
        : collections.page(collection, offset, limit, keyId, isCurrent);
    const sendPage = (page: Page, again?: (gone: string[]) => Promise<void>) =>
      sendList(exchange, 'id', page.ids, linkHeader(`${address}/hotels`, limit, offset, page), again);
    // a short page means the end of the list: if hotels were deleted between the two lookups, the page is read again
    const again = async (gone: string[]) => {
      for (const id of gone) {
        if (collection === null) hotelList.index.moved(id);
        else collections.moved(collection, id);
      }
      return sendPage(await read(true));
    };
    const page = cachedPage();
    return page ? sendPage(page, again) : read().then((found) => sendPage(found, again));
  };

  /**
   * Sends the list of the hotels with these keys, synchronously if the local cache holds all of them. If some do not exist,
   * it calls `again` with their keys instead, or leaves them out.
   */
  const sendList = (
    exchange: Exchange,
    namespace: Namespace,
    keys: readonly string[],
    headers = '',
    again?: (gone: string[]) => Promise<void>,
  ): void | Promise<void> => {
    const { collection, view } = exchange.principal!;
    if (keys.length === 0) return exchange.ok(EMPTY_ARRAY, listTagOf([]), headers);
    const send = (tags: (string | undefined)[], body: () => Uint8Array) => {
      if (again && tags.includes(undefined)) return again(keys.filter((_, i) => tags[i] === undefined));
      return exchange.ok(body(), listTagOf(tags), headers, compressedPages);
    };
    // the ids are those of a page, so all of them are in the collection
    const maySend = collection === null || namespace === 'id';
    const batchLookup = maySend ? local?.gatherKeys(namespace, keys, view) : undefined;
    if (!batchLookup)
      return load(exchange, namespace, keys).then((found) =>
        send(
          found.map((hotel) => hotel?.tag(view)),
          () => joinBodies(found, view),
        ),
      );
    if (batchLookup.hits === keys.length)
      return exchange.ok(
        batchLookup.output,
        listTagOf(batchLookup.joinedTags(view)),
        headers,
        compressedPages,
      );
    const tags = batchLookup.tags(view);
    if (batchLookup.misses === 0) return send(tags, () => batchLookup.output);
    const partial = batchLookup.takePartial();
    return load(exchange, namespace, partial.keys).then((found) => {
      const places = new Map(keys.map((key, i) => [key, i]));
      partial.keys.forEach((key, i) => {
        tags[places.get(key)!] = found[i]?.tag(view);
      });
      return send(tags, () => partial.complete(found, view));
    });
  };

  const never = () => false;
  const parameter = (request: { getParameter(index: number): string | undefined }) =>
    request.getParameter(0) ?? '';
  return {
    list: {
      route: 'list',
      read: (request) => request.getQuery() ?? '',
      needsRegistry: hasRegistryId,
      respond: handleList,
    },
    hotel: {
      route: 'hotel',
      read: parameter,
      needsRegistry: never,
      respond: (exchange, id) => handleSingle(exchange, 'id', decodeParameter(id)),
    },
    hotelByChannel: {
      route: 'hotel_by_channel',
      read: parameter,
      needsRegistry: never,
      respond: (exchange, id) => handleSingle(exchange, 'channel', decodeParameter(id)),
    },
    hotelByRegistry: {
      route: 'hotel_by_registry',
      read: parameter,
      needsRegistry: () => true,
      respond: (exchange, written) => {
        const id = readRegistryId(decodeParameter(written) ?? '');
        if (id === undefined) return exchange.fail(publicErrors.registryIdNotInteger);
        return handleSingle(exchange, 'registry', id);
      },
    },
    batchByChannel: {
      route: 'batch_by_channel',
      needsRegistry: false,
      respond: (exchange, body, mayLoad) => handleBatch(exchange, 'channel', body, mayLoad),
    },
    batchByRegistry: {
      route: 'batch_by_registry',
      needsRegistry: true,
      respond: (exchange, body, mayLoad) => handleBatch(exchange, 'registry', body, mayLoad),
    },
  };
}

/** Sends a hotel of the local cache in the encoding that the client prefers. */
function sendCached(exchange: Exchange, arena: CacheArena, ref: number): void {
  const { view } = exchange;
  const tag = arena.tag(ref, view);
  const encoding = arena.bodyLength(ref, view) >= MIN_COMPRESSED_BYTES ? exchange.encoding : undefined;
  const held = encoding && arena.form(ref, view, encoding);
  if (held && held.length > 0) exchange.okEncoded(held, tag, encoding);
  else {
    const body = arena.body(ref, view);
    const form = encoding && !held ? compressHotel(body, encoding) : undefined;
    exchange.okEncoded(form ?? body, tag, form && encoding);
    if (encoding && !held) arena.offerForm(ref, view, encoding, form ?? NOT_WORTHWHILE);
  }
}

/** Compresses the JSON of a hotel; undefined if that does not pay. */
function compressHotel(body: Uint8Array, encoding: Encoding): Buffer | undefined {
  if (body.length < MIN_COMPRESSED_BYTES) return undefined;
  const compressed = compressNow(body, encoding, 'small');
  return isWorthwhile(compressed, body) ? compressed : undefined;
}

function resultOf(batchLookup: BatchLookup): Uint8Array | PartialResponse {
  return batchLookup.misses === 0 ? batchLookup.output : batchLookup.takePartial();
}

function linkHeader(list: string, limit: number, offset: number, { ids, more, total }: Page): string {
  const to = (at: number, relation: string) => `<${list}?limit=${limit}&offset=${at}>; rel="${relation}"`;
  const links = [to(0, 'first')];
  if (offset > 0) links.push(to(Math.max(0, offset - limit), 'prev'));
  if (more) links.push(to(offset + limit, 'next'));
  const count = more || (ids.length === 0 && offset > 0) ? total : offset + ids.length;
  // of the pages that are as far from the beginning as this one
  const start = offset % limit;
  if (count !== undefined)
    links.push(to(count > start ? count - 1 - ((count - 1 - start) % limit) : 0, 'last'));
  return `\r\nlink: ${links.join(', ')}`;
}
