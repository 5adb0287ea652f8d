import type { BatchLookup } from '../cache/arena/batch-lookup.ts';
import { publicErrors } from '../errors.ts';
import { pagesOf } from '../hotels/hotel-sizes.ts';
import type { Page } from '../hotels/id-list.ts';
import { type Body, EMPTY_ARRAY, PartialResponse } from '../hotels/json-array.ts';
import type { Namespace } from '../hotels/namespace.ts';
import { monotonicMs } from '../lib/clock.ts';
import { AT_ONCE_MS, mayStillSee } from './access-control.ts';
import { NEEDS_LOAD, type Pending } from './admission.ts';
import type { CompressedPages } from './compression.ts';
import type { Exchange } from './exchange.ts';
import { listTagOf } from './head.ts';
import type { HotelSources } from './misses.ts';
import { readListQuery } from './query.ts';

/** Age at which the ids of a page of a collection are not used. */
const MAX_PAGE_AGE_MS = 1_000;

/** Calls `respond` as a batch of so many hotels is answered, when its turn comes, if the key may still read the page. */
export type AnswerPage = (exchange: Exchange, hotels: number, respond: (mayLoad: boolean) => Pending) => void;

/** Reads a page again if these ids do not exist any more, and sends it. */
type ReadAgain = (gone: string[]) => Promise<void>;

/**
 * Creates the handler of the list, which takes the raw query. `address` precedes the query in Link headers; '': links are
 * relative to the request.
 */
export function hotelPages(
  sources: HotelSources,
  address: string,
  compressedPages: CompressedPages | undefined,
  answerPage: AnswerPage,
): (exchange: Exchange, query: string) => void | Promise<void> {
  const { access, local, misses, pageIndex, collections, sizes } = sources;

  /** Returns true if a page from the local cache need not be compressed. */
  const mayBeSent = ({ encoding, principal }: Exchange, lookup: BatchLookup): boolean =>
    encoding === undefined ||
    (lookup.absences === 0 &&
      compressedPages?.get(listTagOf(lookup.joinedTags(principal!.view)), encoding, lookup.output) !==
        undefined);

  /**
   * Sends the list of the hotels with these keys as `PostOperation.respond` does. If some do not exist, it calls `readAgain` with
   * their keys instead, or leaves them out.
   */
  const send = (
    exchange: Exchange,
    namespace: Namespace,
    keys: readonly string[],
    mayLoad: boolean,
    headersNow = () => '',
    readAgain?: ReadAgain,
  ): Pending => {
    const { collection, view } = exchange.principal!;
    // the ids of a page are in the collection, but a hotel with a registry id may be outside
    const mayLookUp = collection === null || namespace === 'id';
    const lookup = mayLookUp ? local.gatherKeys(namespace, keys, view, mayLoad) : undefined;
    if (!mayLoad && !(lookup && mayBeSent(exchange, lookup))) return NEEDS_LOAD;
    const headers = headersNow();
    const ok = (body: Body, tag: string) => {
      sizes.note(pagesOf(exchange.owner), exchange.hotels, body.length);
      exchange.ok(body, tag, headers, compressedPages);
    };
    if (lookup?.hits === keys.length) {
      exchange.hotels = lookup.hits;
      return ok(lookup.output, listTagOf(lookup.joinedTags(view)));
    }
    const tags = lookup?.tags(view) ?? [];
    const sendFound = (body: () => Body) => {
      if (readAgain && tags.includes(undefined))
        return readAgain(keys.filter((_, i) => tags[i] === undefined));
      for (const tag of tags) if (tag !== undefined) exchange.hotels++;
      return ok(body(), listTagOf(tags));
    };
    if (lookup?.misses === 0) return sendFound(() => lookup.output);
    const partial = lookup?.takePartial() ?? new PartialResponse(EMPTY_ARRAY, keys, [1]);
    return misses.load(exchange, namespace, partial.keys, 'lookup', partial.hitsBytes).then((found) => {
      if (!found) return;
      const places = new Map(keys.map((key, i) => [key, i]));
      partial.keys.forEach((key, i) => {
        tags[places.get(key)!] = found[i]?.tag(view);
      });
      return sendFound(() => partial.complete(found, view));
    });
  };

  return (exchange, text) => {
    const query = readListQuery(text);
    if (!access.authorize(exchange, query.isFiltered)) return;
    if ('error' in query) return exchange.fail(publicErrors[query.error]);
    const { limit, offset, registryId } = query;
    if (registryId !== undefined)
      return answerPage(exchange, 1, (mayLoad) =>
        send(exchange, 'registry', offset > 0 ? [] : [registryId], mayLoad),
      );
    const listNow = () => {
      const { collection } = exchange.principal!;
      return collection === null ? pageIndex : collections.listOf(collection);
    };
    const linksTo = (page: Page) => () => linkHeader(address, limit, offset, page);
    // a short page means the end of the list: if hotels were deleted between the two lookups, the page is read again
    const readAgain = async (gone: string[]) => {
      const list = listNow();
      for (const id of gone) list.moved(id);
      const before = exchange.principal;
      const page = await list.page(offset, limit, exchange.owner, true);
      if (!(await mayStillSee(access, exchange, before))) return;
      await send(exchange, 'id', page.ids, true, linksTo(page));
    };
    const answerWith = (found: Page, collection: string | null) => {
      const readAtMs = monotonicMs();
      answerPage(exchange, found.ids.length, (mayLoad) => {
        const ageMs = monotonicMs() - readAtMs;
        let page = ageMs > AT_ONCE_MS ? listNow().cachedPage(offset, limit) : found;
        // without a list in memory, members may have left while the page waited
        if (collection === null || ageMs <= MAX_PAGE_AGE_MS) page ??= found;
        if (page && exchange.principal!.collection === collection)
          return send(exchange, 'id', page.ids, mayLoad, linksTo(page), readAgain);
        return mayLoad ? readAgain([]) : NEEDS_LOAD;
      });
    };
    const { collection } = exchange.principal!;
    const list = listNow();
    const page = list.cachedPage(offset, limit);
    if (page) return answerWith(page, collection);
    return list.page(offset, limit, exchange.owner).then((found) => answerWith(found, collection));
  };
}

function linkHeader(address: string, limit: number, offset: number, { ids, more, total }: Page): string {
  const to = (at: number, relation: string) => `<${address}?limit=${limit}&offset=${at}>; rel="${relation}"`;
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
