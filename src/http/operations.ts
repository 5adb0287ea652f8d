import type { HttpRequest } from 'uWebSockets.js';
import type { BatchLookup } from '../cache/arena/batch-lookup.ts';
import { type ErrorCode, publicErrors } from '../errors.ts';
import { PartialResponse } from '../hotels/json-array.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs } from '../lib/clock.ts';
import type { Route } from '../observability/routes.ts';
import { OK } from '../wasm/constants.ts';
import { MAX_UNSENT_MS, mayStillSee } from './access-control.ts';
import { NEEDS_LOAD, type Pending } from './admission.ts';
import type { CompressedPages } from './compression.ts';
import type { Exchange } from './exchange.ts';
import { type AnswerPage, hotelPages } from './hotel-pages.ts';
import type { HotelSources, Way } from './misses.ts';
import { decodeParameter, readRegistryId } from './query.ts';
import { singleHotels } from './single-hotels.ts';

/** Errors of bodies, by the negative of the status of a lookup. */
const ERRORS: Record<Namespace, readonly (ErrorCode | undefined)[]> = {
  id: [undefined, 'bodyNotJson', 'idsMissing', 'tooManyIds', 'idNotString'],
  channel: [undefined, 'bodyNotJson', 'channelIdsMissing', 'tooManyChannelIds', 'channelIdNotString'],
  registry: [undefined, 'bodyNotJson', 'registryIdsMissing', 'tooManyRegistryIds', 'registryIdNotInteger'],
};

/** An operation by GET and HEAD. */
export interface GetOperation {
  route: Route;
  /** takes from the request what the response needs; the request cannot be read later */
  read: (request: HttpRequest) => string;
  /** answers a request with a valid key, whose scope it judges if it needs one */
  respond: (exchange: Exchange, input: string) => void | Promise<void>;
}

/** An operation by POST. */
export interface PostOperation {
  route: Route;
  needsRegistry: boolean;
  /**
   * Answers the request. The body is valid until the first await. With `mayLoad` false it answers from the local
   * cache alone, or does nothing and returns NEEDS_LOAD.
   */
  respond: (exchange: Exchange, body: Uint8Array, mayLoad: boolean) => Pending;
}

/** An operation of the contract. */
export type Operation = GetOperation | PostOperation;

/** Creates the operations that read hotels. `publicAddress` precedes the paths of Link headers; '': they are relative. */
export function hotelOperations(
  sources: HotelSources,
  publicAddress: string,
  compressedPages: CompressedPages | undefined,
  answerPage: AnswerPage,
): Operation[] {
  const sendHotel = singleHotels(sources);
  const sendBatch = batches(sources);
  const single = (route: Route, namespace: Namespace): GetOperation => ({
    route,
    read: (request) => request.getParameter(0) ?? '',
    respond: (exchange, written) => {
      const key = decodeParameter(written);
      if (namespace !== 'registry') return sendHotel(exchange, namespace, key);
      if (!sources.access.authorize(exchange, true)) return;
      const id = readRegistryId(key ?? '');
      if (id === undefined) return exchange.fail(publicErrors.registryIdNotInteger);
      return sendHotel(exchange, namespace, id);
    },
  });
  const batch = (route: Route, namespace: Namespace): PostOperation => ({
    route,
    needsRegistry: namespace === 'registry',
    respond: (exchange, body, mayLoad) => sendBatch(exchange, namespace, body, mayLoad),
  });
  return [
    {
      route: 'list',
      read: (request) => request.getQuery() ?? '',
      respond: hotelPages(sources, publicAddress && `${publicAddress}/hotels`, compressedPages, answerPage),
    },
    single('hotel', 'id'),
    single('hotel_by_channel', 'channel'),
    single('hotel_by_registry', 'registry'),
    batch('batch', 'id'),
    batch('batch_by_channel', 'channel'),
    batch('batch_by_registry', 'registry'),
  ];
}

/** Returns what sends the hotels of the ids in a body, as `PostOperation.respond` does. */
export function batches({
  access,
  local,
  collections,
  misses,
  redisBatch,
  sizes,
}: HotelSources): (exchange: Exchange, namespace: Namespace, body: Uint8Array, mayLoad: boolean) => Pending {
  return (exchange, namespace, body, mayLoad) => {
    const before = exchange.principal!;
    const { collection, keyId, view } = before;
    const beganMs = monotonicMs();
    if (!mayLoad && exchange.encoding !== undefined) return NEEDS_LOAD;
    const members = collection === null ? undefined : (collections.members(collection) ?? null);
    const lookup = local.gatherBody(namespace, body, view, mayLoad, members);
    if (!lookup) return NEEDS_LOAD;
    const wrong = bodyErrorOf(namespace, lookup);
    if (wrong) {
      const position = wrong.index === undefined ? '' : `\r\nx-error-position: ${wrong.index}`;
      return exchange.fail(publicErrors[wrong.error], position);
    }
    const send = (whole: Uint8Array, hotels: number): void | Promise<void> => {
      exchange.hotels = hotels;
      sizes.note(keyId, hotels, whole.length);
      if (monotonicMs() - beganMs < MAX_UNSENT_MS) return exchange.ok(whole, '');
      // Redis was slow; its memory is used again meanwhile
      const kept = Buffer.from(whole);
      return mayStillSee(access, exchange, before).then((may) => {
        if (may) exchange.ok(kept, '');
      });
    };
    const load = async (part: PartialResponse, hotels: number, way: Way): Promise<void> => {
      if (exchange.over) return;
      exchange.hotels = hotels;
      sizes.note(keyId, hotels, part.hitsBytes);
      const found = await misses.load(exchange, namespace, part.keys, way, part.hitsBytes);
      if (!found) return;
      for (const hotel of found) if (hotel) exchange.hotels++;
      const whole = part.complete(found, view);
      sizes.note(keyId, exchange.hotels, whole.length);
      exchange.ok(whole, '');
    };
    if (lookup.misses === 0) return send(lookup.output, lookup.hits);
    const way = misses.wayOf(exchange, lookup.misses, lookup.status !== OK);
    // its hits are read in its turn too: they would be old, or a member may have left the collection
    if (way === 'turns') return load(lookup.takePartial(true), 0, way);
    if (way !== 'redis') return load(lookup.takePartial(), lookup.hits, way);
    const finish = (result: Uint8Array | PartialResponse, hotels: number) => {
      if (!(result instanceof PartialResponse)) return send(result, hotels);
      return load(result, hotels, result.isLarge ? 'turns' : 'rest');
    };
    return redisBatch!.complete(namespace, lookup, view, finish, () => exchange.over);
  };
}

/** Returns the error of a batch's body, and the index of the first wrong element; undefined if it has none. */
export function bodyErrorOf(
  namespace: Namespace,
  { status, wrongIndex }: BatchLookup,
): { error: ErrorCode; index?: number | undefined } | undefined {
  const error = ERRORS[namespace][-status];
  return error && { error, index: error === ERRORS[namespace].at(-1) ? wrongIndex : undefined };
}
