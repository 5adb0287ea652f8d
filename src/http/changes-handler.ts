import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import { type Principal, seesAlike } from '../auth/principal.ts';
import type { ChangesReader } from '../changes/changes-reader.ts';
import type { ChangesPage } from '../changes/page-reader.ts';
import type { Collections } from '../collections/collections.ts';
import { publicErrors } from '../errors.ts';
import { monotonicMs } from '../lib/clock.ts';
import { workOf } from '../lib/event-loop.ts';
import { MAX_UNSENT_MS } from './access-control.ts';
import type { Exchange } from './exchange.ts';
import { tagOf } from './head.ts';
import type { GetOperation } from './operations.ts';
import { type ChangesQuery, readChangesQuery } from './query.ts';

/**
 * Creates the handler of `GET /changes`. `publicAddress` precedes the path of the Link header; '': it is relative. A client
 * that has waited gets what its key may see then.
 */
export function changesOperation(
  reader: ChangesReader,
  collections: Pick<Collections, 'membersAmong'>,
  publicAddress: string,
  apiKeys: ApiKeyCache,
): GetOperation {
  const path = publicAddress && `${publicAddress}/changes`;
  // clients that waited share a page
  const tags = new WeakMap<ChangesPage, string>();
  const send = (exchange: Exchange, page: ChangesPage, { limit, waitS }: ChangesQuery) => {
    const { body, written } = page;
    exchange.hotels = page.ids.length;
    const tag = tags.get(page) ?? tagOf(body);
    tags.set(page, tag);
    const link = `<${path}?after=${written}&limit=${limit}&wait=${waitS}>; rel="next"`;
    exchange.ok(body, tag, `\r\nlink: ${link}`);
  };
  const load = async (exchange: Exchange, query: ChangesQuery) => {
    const { token, limit, waitS } = query;
    const { keyId, collection, view } = exchange.principal!;
    const key = exchange.headers.apiKey ?? '';
    const rights = async () => {
      const known = apiKeys.find(key);
      return known === undefined ? apiKeys.load(key) : known;
    };
    const request = { token, limit, waitMs: 1000 * waitS, view, collection, owner: keyId, rights };
    const page = await reader.page(request, exchange);
    if (page === 'expired') return exchange.fail(publicErrors.tokenExpired);
    if (page === 'unauthorized') return exchange.fail(publicErrors.unauthorized);
    /** Sends the page, or another one if a hotel of it is not among the members any more. */
    const sendIfAmong = (members: ReadonlySet<string>) =>
      page.ids.every((id) => members.has(id)) ? send(exchange, page, query) : load(exchange, query);
    // without a query it sends within the turn
    const answer = (now: Principal | null): void | Promise<void> => {
      if (exchange.over) return;
      if (now === null) return exchange.fail(publicErrors.unauthorized);
      if (now.collection !== collection) return exchange.fail(publicErrors.tokenExpired);
      exchange.principal = now;
      // it may have got another view while the page waited for its turn
      if (now.view !== page.next.view) return load(exchange, query);
      const isLate = monotonicMs() - page.readAtMs >= MAX_UNSENT_MS;
      if (collection === null || !isLate) return send(exchange, page, query);
      const members = collections.membersAmong(collection, page.ids, keyId);
      if (!(members instanceof Promise)) return sendIfAmong(members);
      return members.then((found) => {
        // its rights may have changed meanwhile
        const known = apiKeys.find(key);
        const seesThis = known === undefined || (known !== null && seesAlike(known, now));
        return seesThis ? sendIfAmong(found) : load(exchange, query);
      });
    };
    const answerInTurn = async (loaded?: Principal | null): Promise<void> =>
      reader.eventLoop.run(keyId, workOf(page.body.length), () => {
        const known = apiKeys.find(key);
        const now = known === undefined ? loaded : known;
        return now === undefined ? apiKeys.load(key).then(answerInTurn) : answer(now);
      });
    return answerInTurn();
  };
  return {
    route: 'changes',
    read: (request) => request.getQuery() ?? '',
    respond: (exchange, text) => {
      const query = readChangesQuery(text);
      if ('error' in query) return exchange.fail(publicErrors[query.error]);
      const { collection, view } = exchange.principal!;
      const page = query.waitS === 0 && reader.upToDate({ token: query.token, view, collection });
      return page ? send(exchange, page, query) : load(exchange, query);
    },
  };
}
