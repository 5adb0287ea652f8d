import type { ErrorCode } from '../errors.ts';
import type { Hotel } from '../hotels/hotel.ts';
import { failures, notModified, type ReadKind, type ResponseExamples, success } from './responses.ts';
import { ChangesParameters, ListParameters, PathId, plain, RegistryId, RequestId } from './schemas.ts';

type Json = Record<string, unknown>;

/** Errors in the transfer of a body. */
const OF_BODIES: ErrorCode[] = [
  'framingAmbiguous',
  'bodyTooSlow',
  'bodyTooLarge',
  'contentEncodingNotSupported',
];
const SCOPED = 'Requires a key with the `registry` scope.';
const unscoped = (hotel: Hotel): Hotel => ({ ...hotel, registry_id: null });

const firstChanges = (hotels: Hotel[]) => ({
  changes: hotels.map((hotel) => ({ id: hotel.id, hotel })),
  next: 'ytSAyFP1WzEsIlhtaHFybm1TaXMyeSIsMiwwLG51bGxd',
  more: false,
});

const KEYS: ResponseExamples = {
  limited: {
    summary: 'A key of a collection, with an expiry and a rate limit',
    value: {
      id: 'key_5vq0c2m8',
      name: 'Example Travel, production',
      scopes: ['registry'],
      collection: { id: 'alps', name: 'Hotels in the Alps' },
      expires_at: '2031-01-01T00:00:00.000Z',
      rate_limit: { requests: 600, window_seconds: 60 },
    },
  },
  unlimited: {
    summary: 'A key that sees all hotels, without registry ids',
    value: {
      id: 'key_1h7s9d4k',
      name: 'Example Maps',
      scopes: [],
      collection: null,
      expires_at: null,
      rate_limit: null,
    },
  },
};

/** Returns the examples of a response with these hotels, as keys with and without the scope see them. */
const views = (hotels: Hotel[], body: (hotels: Hotel[]) => unknown = (same) => same) => ({
  scoped: { summary: 'With the registry scope', value: body(hotels) },
  unscoped: { summary: 'Without it', value: body(hotels.map(unscoped)) },
});

/** Parameters of several operations, by their names in the document. */
export const parameters = {
  RequestId: {
    name: 'x-request-id',
    in: 'header',
    description: 'An id for the request, echoed and logged. It is ignored unless well-formed',
    schema: plain(RequestId),
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description:
      'The `ETag` of the stored response, a list of them, or `*`. The response is 304 while nothing has changed',
    schema: { type: 'string' },
  },
};
const REQUEST_ID = { $ref: '#/components/parameters/RequestId' };
const IF_NONE_MATCH = { $ref: '#/components/parameters/IfNoneMatch' };

/** Returns the paths of the document with the nine operations; the examples use these two hotels. */
export function paths([certified, sparse]: [certified: Hotel, sparse: Hotel]): Json {
  const single = views([certified], ([hotel]) => hotel);
  const getBy = (parameter: Json) => read('single', [parameter], single, ['bodyNotAllowed', 'hotelNotFound']);
  return {
    '/hotels': {
      get: {
        operationId: 'listHotels',
        tags: ['Hotels'],
        summary: 'List hotels',
        description:
          'The hotels accessible with your API key, ordered by `id`, byte by byte. The `Link` header names the other pages.\n\n' +
          'With `registry_id`, the list contains the hotel with that registry id, if any. This requires the `registry` scope.',
        ...read('list', queryParameters(ListParameters), views([sparse, certified]), [
          'limitOutOfBounds',
          'offsetOutOfBounds',
          'registryIdNotInteger',
          'bodyNotAllowed',
          'forbidden',
        ]),
      },
    },
    '/changes': {
      get: {
        operationId: 'listChanges',
        tags: ['Mirror'],
        summary: 'Copy all hotels, and keep the copy up to date',
        description:
          'Begin without `after`, apply the changes of each response in order, and send its `next` as `after` in the next ' +
          'request. The responses first hold every hotel, then each hotel that has changed, within one second of the ' +
          'change. If `more` is true, send the next request at once; if it is false, your copy is up to date. ' +
          'Hotels that are gone come first in a response. Two hotels may exchange ids across responses, so a copy with ' +
          'unique columns for `channel_id` or `registry_id` checks them when `more` is false.\n\n' +
          'After 410, discard your copy and begin again without `after`.',
        ...read('changes', queryParameters(ChangesParameters), views([sparse, certified], firstChanges), [
          'changesLimitOutOfBounds',
          'waitOutOfBounds',
          'afterNotToken',
          'bodyNotAllowed',
          'tokenExpired',
        ]),
      },
    },
    '/key': {
      get: {
        operationId: 'getKey',
        tags: ['Key'],
        summary: 'Get what your API key is and may',
        description:
          'The name, scopes, collection, expiry and rate limit of the key of the request, never the key itself.',
        ...read('key', [], KEYS, ['bodyNotAllowed']),
      },
    },
    '/hotels/{id}': {
      get: {
        operationId: 'getHotel',
        tags: ['Hotels'],
        summary: 'Get a hotel by its id',
        description: 'The hotel with this id.',
        ...getBy(pathParameter('id', PathId, 'The hotel id', certified.id)),
      },
    },
    '/hotels/channel/{channelId}': {
      get: {
        operationId: 'getHotelByChannelId',
        tags: ['Channel'],
        summary: 'Get a hotel by its channel id',
        description: 'The hotel with this identifier of the channel integration.',
        ...getBy(pathParameter('channelId', PathId, 'The channel id, case-sensitive', certified.channel_id)),
      },
    },
    '/hotels/registry/{registryId}': {
      get: {
        operationId: 'getHotelByRegistryId',
        tags: ['Registry'],
        summary: 'Get a hotel by its registry id',
        description: SCOPED,
        ...read(
          'single',
          [pathParameter('registryId', RegistryId, 'The registry id', certified.registry_id)],
          { scoped: single.scoped },
          ['registryIdNotInteger', 'bodyNotAllowed', 'forbidden', 'hotelNotFound'],
        ),
      },
    },
    '/hotels/batch': {
      post: {
        operationId: 'batchHotelsById',
        tags: ['Hotels'],
        summary: 'Get up to 1000 hotels by their ids',
        description: 'Ids without a hotel are left out of the response.',
        ...batch('IdBatch', { ids: [certified.id, 'htl_unknown', sparse.id] }, views([certified, sparse]), [
          'idsMissing',
          'idNotString',
          'tooManyIds',
        ]),
      },
    },
    '/hotels/channel/batch': {
      post: {
        operationId: 'batchHotelsByChannelId',
        tags: ['Channel'],
        summary: 'Get up to 1000 hotels by their channel ids',
        description: 'Ids without a hotel are left out of the response.',
        ...batch(
          'ChannelBatch',
          { channel_ids: [certified.channel_id, 'CH-unknown', sparse.channel_id] },
          views([certified, sparse]),
          ['channelIdsMissing', 'channelIdNotString', 'tooManyChannelIds'],
        ),
      },
    },
    '/hotels/registry/batch': {
      post: {
        operationId: 'batchHotelsByRegistryId',
        tags: ['Registry'],
        summary: 'Get up to 1000 hotels by their registry ids',
        description: `${SCOPED} Ids without a hotel are left out of the response.`,
        ...batch(
          'RegistryBatch',
          { registry_ids: [certified.registry_id, 7, String(sparse.registry_id)] },
          { scoped: { summary: 'The first and the third', value: [certified, sparse] } },
          ['registryIdsMissing', 'registryIdNotInteger', 'tooManyRegistryIds', 'forbidden'],
        ),
      },
    },
  };
}

function queryParameters(parameters: Record<string, object>): Json[] {
  return Object.entries(parameters).map(([name, property]) => {
    const { description, ...schema } = plain(property);
    return { name, in: 'query', required: false, description, schema };
  });
}

function pathParameter(name: string, schema: object, description: string, example: unknown): Json {
  return { name, in: 'path', required: true, description, schema: plain(schema), example };
}

/** Returns the parameters and responses of a GET. */
function read(kind: ReadKind, parameters: Json[], examples: ResponseExamples, errors: ErrorCode[]): Json {
  return {
    parameters: [...parameters, IF_NONE_MATCH, REQUEST_ID],
    responses: { 200: success(kind, examples), 304: notModified(kind), ...failures(errors) },
  };
}

/** Returns the parameters, the body and the responses of a batch with this schema and example. */
function batch(schema: string, value: object, examples: ResponseExamples, errors: ErrorCode[]): Json {
  return {
    parameters: [REQUEST_ID],
    requestBody: {
      required: true,
      description: 'At most 1 MiB. Duplicates count towards the limit of ids',
      content: {
        'application/json': {
          schema: { $ref: `#/components/schemas/${schema}` },
          examples: { some: { summary: 'Three ids; no hotel has the second', value } },
        },
      },
    },
    responses: {
      200: success('batch', examples),
      ...failures(['bodyNotJson', ...errors, ...OF_BODIES]),
    },
  };
}
