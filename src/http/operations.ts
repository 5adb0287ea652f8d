import { publicErrors } from '../errors.ts';
import type { Namespace } from '../hotels/namespace.ts';
import type { Route } from '../observability/request-histogram.ts';
import { batches } from './batches.ts';
import type { CompressedPages } from './compression.ts';
import { hotelPages } from './hotel-pages.ts';
import type { HotelSources } from './hotel-sources.ts';
import { decodeParameter, readRegistryId } from './ids.ts';
import { hasRegistryId } from './query.ts';
import type { AnswerPage, GetRouteDefinition, Operation, PostRouteDefinition } from './routes.ts';
import { singleHotels } from './single-hotels.ts';

/** Creates the operations that read hotels. `publicAddress` precedes the paths of Link headers; '': they are relative. */
export function hotelOperations(
  sources: HotelSources,
  publicAddress: string,
  compressedPages: CompressedPages | undefined,
  answerPage: AnswerPage,
): Operation[] {
  const sendHotel = singleHotels(sources);
  const sendBatch = batches(sources);
  const single = (route: Route, namespace: Namespace): GetRouteDefinition => ({
    route,
    read: (request) => request.getParameter(0) ?? '',
    needsRegistry: () => namespace === 'registry',
    respond: (exchange, written) => {
      const key = decodeParameter(written);
      if (namespace !== 'registry') return sendHotel(exchange, namespace, key);
      const id = readRegistryId(key ?? '');
      if (id === undefined) return exchange.fail(publicErrors.registryIdNotInteger);
      return sendHotel(exchange, namespace, id);
    },
  });
  const batch = (route: Route, namespace: Namespace): PostRouteDefinition => ({
    route,
    needsRegistry: namespace === 'registry',
    respond: (exchange, body, mayLoad) => sendBatch(exchange, namespace, body, mayLoad),
  });
  return [
    {
      route: 'list',
      read: (request) => request.getQuery() ?? '',
      needsRegistry: hasRegistryId,
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
