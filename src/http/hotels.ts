import { hash } from 'node:crypto';
import { publicErrors } from '../errors.ts';
import type { Entry, View } from '../hotels/entry.ts';
import type { Listing } from '../hotels/listing.ts';
import type { Found, Reader } from '../hotels/reader.ts';
import type { Namespace } from '../hotels/shared.ts';
import type { BatchIds } from './batch-body.ts';
import { readChannelBatch, readRegistryBatch } from './batch-body.ts';
import type { Exchange } from './exchange.ts';
import type { GetRule, PostRule } from './gate.ts';
import { decodeId, readRegistryId } from './ids.ts';
import { asksForRegistryId, parseQuery, readListQuery } from './query.ts';

/** The six operations of the contract, behind the gate. */
export interface Operations {
  list: GetRule<Map<string, string | undefined>>;
  hotel: GetRule<string>;
  hotelByChannel: GetRule<string>;
  hotelByRegistry: GetRule<string>;
  batchByChannel: PostRule;
  batchByRegistry: PostRule;
}

/** Binds the operations to what they read. `basePath` stands before the paths of Link headers. */
export function operationsOn(reader: Reader, listing: Listing, basePath: string): Operations {
  const answerSingle = async (exchange: Exchange, namespace: Namespace, key: string | null | undefined) => {
    const [hotel] = key === null || key === undefined ? [null] : await reader.load(namespace, [key]);
    if (!hotel) return exchange.fail(publicErrors.hotelNotFound);
    exchange.ok(hotel.body(exchange.view), hotel.tag(exchange.view));
  };

  const answerBatch = async (exchange: Exchange, namespace: Namespace, batch: BatchIds) => {
    if ('error' in batch) return exchange.fail(publicErrors[batch.error]);
    const found = batch.ids.length > 0 ? await reader.load(namespace, batch.ids) : [];
    exchange.ok(joinBodies(found, exchange.view), '');
  };

  const answerList = async (exchange: Exchange, parameters: Map<string, string | undefined>) => {
    const query = readListQuery(parameters);
    if ('error' in query) return exchange.fail(publicErrors[query.error]);
    const { limit, offset, registryId } = query;
    let body: Buffer;
    let link = '';
    if (registryId === undefined) {
      const page = await listing.page(offset, limit);
      // a hotel deleted between the two looks is left out
      body = joinBodies(page.ids.length > 0 ? await reader.load('id', page.ids) : [], exchange.view);
      link = linkHeader(`${basePath}/hotels`, limit, offset, page.more);
    } else {
      const found = registryId === null || offset > 0 ? [] : await reader.load('registry', [registryId]);
      body = joinBodies(found, exchange.view);
    }
    exchange.ok(body, hash('sha1', body, 'base64url').slice(0, 16), link);
  };

  const anyone = () => false;
  const parameter = (request: { getParameter(index: number): string | undefined }) =>
    request.getParameter(0) ?? '';
  return {
    list: {
      route: 'list',
      read: (request) => parseQuery(request.getQuery()),
      needsRegistry: asksForRegistryId,
      answer: answerList,
    },
    hotel: {
      route: 'hotel',
      read: parameter,
      needsRegistry: anyone,
      answer: (exchange, id) => answerSingle(exchange, 'id', decodeId(id)),
    },
    hotelByChannel: {
      route: 'hotel_by_channel',
      read: parameter,
      needsRegistry: anyone,
      answer: (exchange, id) => answerSingle(exchange, 'channel', decodeId(id)),
    },
    hotelByRegistry: {
      route: 'hotel_by_registry',
      read: parameter,
      needsRegistry: () => true,
      answer: (exchange, written) => {
        const id = readRegistryId(decodeId(written) ?? '');
        if (id === undefined) return exchange.fail(publicErrors.registryIdNotInteger);
        return answerSingle(exchange, 'registry', id);
      },
    },
    batchByChannel: {
      route: 'batch_by_channel',
      needsRegistry: false,
      answer: (exchange, body) => answerBatch(exchange, 'channel', readChannelBatch(body)),
    },
    batchByRegistry: {
      route: 'batch_by_registry',
      needsRegistry: true,
      answer: (exchange, body) => answerBatch(exchange, 'registry', readRegistryBatch(body)),
    },
  };
}

const OPEN = 0x5b;
const COMMA = 0x2c;
const CLOSE = 0x5d;

/** The JSON array of those hotels that were found. */
function joinBodies(found: Found[], view: View): Buffer {
  const entries = found.filter((entry): entry is Entry => entry !== null);
  let length = 2 + Math.max(0, entries.length - 1);
  for (const entry of entries) length += entry.bodyLength(view);
  const body = Buffer.allocUnsafe(length);
  let offset = 0;
  body[offset++] = OPEN;
  for (const entry of entries) {
    if (offset > 1) body[offset++] = COMMA;
    offset = entry.copyBody(view, body, offset);
  }
  body[offset] = CLOSE;
  return body;
}

function linkHeader(path: string, limit: number, offset: number, more: boolean): string {
  const to = (at: number, relation: string) => `<${path}?limit=${limit}&offset=${at}>; rel="${relation}"`;
  const links = [to(0, 'first')];
  if (offset > 0) links.push(to(Math.max(0, offset - limit), 'prev'));
  if (more) links.push(to(offset + limit, 'next'));
  return `\r\nlink: ${links.join(', ')}`;
}
