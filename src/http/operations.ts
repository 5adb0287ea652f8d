import type { HttpRequest } from 'uWebSockets.js';
import { publicErrors } from '../errors.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { Route } from '../observability/request-histogram.ts';
import type { Pending } from './admission.ts';
import { batches } from './batches.ts';
import type { CompressedPages } from './compression.ts';
import type { Exchange } from './exchange.ts';
import { type AnswerPage, hotelPages } from './hotel-pages.ts';
import type { HotelSources } from './misses.ts';
import { decodeParameter, readRegistryId } from './query.ts';
import { singleHotels } from './single-hotels.ts';

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
