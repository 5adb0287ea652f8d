import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import type { ChangeFeed, Page } from '../changes/change-feed.ts';
import { publicErrors } from '../errors.ts';
import { tagOf } from './etag.ts';
import type { Exchange } from './exchange.ts';
import { type ChangesQuery, parseQuery, readChangesQuery } from './query.ts';
import type { GetRouteDefinition } from './routes.ts';

/** Key and parameters of a request for changes. */
export interface ChangesInput {
  key: string;
  parameters: Map<string, string | undefined>;
}

/**
 * Creates the handler of `GET /changes`. `basePath` precedes the path of the Link header. A client that has waited gets
 * what its key may see then.
 */
export function changesOperation(
  feed: ChangeFeed,
  basePath: string,
  apiKeys: ApiKeyCache,
): GetRouteDefinition<ChangesInput> {
  const send = (exchange: Exchange, { body, written }: Page, { limit, waitS }: ChangesQuery) => {
    const link = `<${basePath}/changes?after=${written}&limit=${limit}&wait=${waitS}>; rel="next"`;
    exchange.ok(body, tagOf(body), `\r\nlink: ${link}`);
  };
  const load = async (exchange: Exchange, query: ChangesQuery, key: string) => {
    const { token, limit, waitS } = query;
    const { view, principal } = exchange;
    const { keyId, collection } = principal!;
    const rights = async () => {
      const known = apiKeys.find(key);
      return known === undefined ? apiKeys.load(key) : known;
    };
    const wish = { token, limit, waitMs: 1000 * waitS, view, collection, owner: keyId, rights };
    const page = await feed.page(wish, exchange);
    if (page === 'expired') return exchange.fail(publicErrors.tokenExpired);
    if (page === 'unauthorized') return exchange.fail(publicErrors.unauthorized);
    send(exchange, page, query);
  };
  return {
    route: 'changes',
    read: (request) => ({
      key: request.getHeader('x-api-key'),
      parameters: parseQuery(request.getQuery() ?? ''),
    }),
    needsRegistry: () => false,
    answer: (exchange, { key, parameters }) => {
      const query = readChangesQuery(parameters);
      if ('error' in query) return exchange.fail(publicErrors[query.error]);
      const page =
        query.waitS === 0
          ? feed.upToDate({ ...query, view: exchange.view, collection: exchange.principal!.collection })
          : undefined;
      if (page) return send(exchange, page, query);
      return load(exchange, query, key);
    },
  };
}
