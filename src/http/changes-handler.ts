import type { ChangeFeed, Page } from '../changes/change-feed.ts';
import { publicErrors } from '../errors.ts';
import { tagOf } from './etag.ts';
import type { Exchange } from './exchange.ts';
import { type ChangesQuery, parseQuery, readChangesQuery } from './query.ts';
import type { GetRouteDefinition } from './routes.ts';

/** Creates the handler of `GET /changes`. `basePath` precedes the path of the Link header. */
export function changesOperation(
  feed: ChangeFeed,
  basePath: string,
): GetRouteDefinition<Map<string, string | undefined>> {
  const send = (exchange: Exchange, { body, written }: Page, { limit, waitS }: ChangesQuery) => {
    const link = `<${basePath}/changes?after=${written}&limit=${limit}&wait=${waitS}>; rel="next"`;
    exchange.ok(body, tagOf(body), `\r\nlink: ${link}`);
  };
  const load = async (exchange: Exchange, query: ChangesQuery) => {
    const { token, limit, waitS } = query;
    const { view, principal } = exchange;
    const { keyId, collection } = principal!;
    const wish = { token, limit, waitMs: 1000 * waitS, view, collection, owner: keyId };
    const page = await feed.page(wish, exchange);
    if (page === 'expired') return exchange.fail(publicErrors.tokenExpired);
    send(exchange, page, query);
  };
  return {
    route: 'changes',
    read: (request) => parseQuery(request.getQuery() ?? ''),
    needsRegistry: () => false,
    answer: (exchange, parameters) => {
      const query = readChangesQuery(parameters);
      if ('error' in query) return exchange.fail(publicErrors[query.error]);
      const page =
        query.waitS === 0
          ? feed.upToDate({ ...query, view: exchange.view, collection: exchange.principal!.collection })
          : undefined;
      if (page) return send(exchange, page, query);
      return load(exchange, query);
    },
  };
}
