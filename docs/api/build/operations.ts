import type { ErrorCode } from '../../../src/errors.ts';
import { EXAMPLE_HOTEL, type Hotel } from '../../../src/hotels/hotel.ts';
import { failures, type Kind, notModified, ref, refs, success } from './responses.ts';
import { ChangesParameters, ListParameters, PathId, plain, RegistryId, RequestId } from './schemas.ts';

type Json = Record<string, unknown>;

/** One operation, as the document describes it. */
export interface Operation {
  path: string;
  operationId: string;
  tag: 'Hotels' | 'Channel' | 'Mirror' | 'Registry' | 'Key';
  summary: string;
  description: string;
  kind: keyof typeof KINDS;
  /** true: requires the scope `registry` */
  isScoped?: boolean;
  /** query or path parameters of a GET */
  parameters?: Json[];
  /** schema and example of the body of a POST */
  body?: [schema: string, example: object];
  /** errors besides those of all operations, of its kind and of its scope */
  errors?: ErrorCode[];
}

const NARROW_KEY = {
  id: 'key_1h7s9d4k',
  name: 'Example Maps',
  scopes: [],
  collection: null,
  expires_at: null,
  rate_limit: null,
};
/** A key with everything that a key may have. */
export const KEY = {
  id: 'key_5vq0c2m8',
  name: 'Example Travel, production',
  scopes: ['registry'],
  collection: { id: 'alps', name: 'Hotels in the Alps' },
  expires_at: '2031-01-01T00:00:00.000Z',
  rate_limit: { requests: 600, window_seconds: 60 },
};

const HOTEL = ref('schemas', 'Hotel');
const HOTELS = { type: 'array', items: HOTEL };
/** Errors of all operations by GET. */
const OF_GET = ['bodyNotAllowed', 'hostInvalid'] as const;
/** Kinds of operations. `example`: the body of a success, made of a hotel. */
const KINDS = {
  list: {
    description: 'The page, empty after the end of the list. `Link` names the next one, if there is one',
    schema: HOTELS,
    headers: refs('ETag', 'Link'),
    errors: OF_GET,
    example: (hotel) => [hotel],
  },
  single: {
    description: 'The hotel',
    schema: HOTEL,
    headers: refs('ETag'),
    errors: [...OF_GET, 'hotelNotFound'],
    example: (hotel) => hotel,
  },
  batch: {
    description: 'The hotels found, in the order of the request. A repeated id is answered once',
    schema: HOTELS,
    headers: {},
    errors: [
      ...(['bodyNotJson', 'hostInvalid', 'framingAmbiguous', 'bodyTooSlow', 'bodyTooLarge'] as const),
      'contentEncodingNotSupported',
    ],
    example: (hotel) => [hotel],
  },
  changes: {
    description: 'The next changes, those of hotels that are gone first',
    schema: ref('schemas', 'ChangePage'),
    headers: refs('ETag', 'Link'),
    errors: OF_GET,
    example: (hotel) => ({
      changes: [{ id: hotel.id, hotel }],
      next: 'M38nwG36WzEsIlhtaHFybm1TaXMyeSIsMjA0ODEsIjQ2MTE2ODYwMTg0MjczODg2NzkiLDAsbnVsbCxudWxsLDEsMF0',
      more: false,
    }),
  },
  key: {
    description: 'The rights and limits of the key',
    schema: ref('schemas', 'Key'),
    headers: refs('ETag'),
    errors: OF_GET,
    example: ({ registry_id }) => (registry_id === null ? NARROW_KEY : KEY),
  },
} satisfies Record<string, Kind & { example: (hotel: Hotel) => unknown }>;

const SCOPED = 'Requires a key with the `registry` scope.';
const LEFT_OUT = 'Ids without a hotel are left out of the response.';

/** The hotel of all examples. */
const hotel = EXAMPLE_HOTEL;

export const operations: Operation[] = [
  {
    path: '/hotels',
    operationId: 'listHotels',
    tag: 'Hotels',
    summary: 'List hotels',
    description:
      'The hotels accessible with your API key, ordered by `id`, byte by byte. The `Link` header names the other pages.\n\n' +
      'With `registry_id`, the list contains the hotel with that registry id, if any. This requires the `registry` scope.',
    kind: 'list',
    parameters: queryParameters(ListParameters),
    errors: ['limitOutOfBounds', 'offsetOutOfBounds', 'registryIdNotInteger', 'forbidden'],
  },
  {
    path: '/changes',
    operationId: 'listChanges',
    tag: 'Mirror',
    summary: 'Copy all hotels, and keep the copy up to date',
    description:
      'Begin without `after`, apply the changes of each response in order, and send its `next` as `after` in the next ' +
      'request. The responses first hold every hotel, then each hotel that has changed, normally within one second of ' +
      'the change. If `more` is true, send the next request at once; if it is false, your copy is up to date. ' +
      'Hotels that are gone come first in a response. Two hotels may exchange ids across responses, so a copy with ' +
      'unique columns for `channel_id` or `registry_id` checks them when `more` is false.\n\n' +
      'After 410, begin again without `after`, and replace your copy when `more` is false.',
    kind: 'changes',
    parameters: queryParameters(ChangesParameters),
    errors: ['changesLimitOutOfBounds', 'waitOutOfBounds', 'afterNotToken', 'tokenExpired'],
  },
  {
    path: '/key',
    operationId: 'getKey',
    tag: 'Key',
    summary: 'Get the rights and limits of your API key',
    description:
      'The name, scopes, collection, expiry and rate limit of the key of the request, never the key itself.',
    kind: 'key',
  },
  {
    path: '/hotels/{id}',
    operationId: 'getHotel',
    tag: 'Hotels',
    summary: 'Get a hotel by its id',
    description: 'The hotel with this id.',
    kind: 'single',
    parameters: [pathParameter('id', PathId, 'The hotel id', hotel.id)],
  },
  {
    path: '/hotels/channel/{channelId}',
    operationId: 'getHotelByChannelId',
    tag: 'Channel',
    summary: 'Get a hotel by its channel id',
    description: 'The hotel with this identifier of the channel integration.',
    kind: 'single',
    parameters: [pathParameter('channelId', PathId, 'The channel id, case-sensitive', hotel.channel_id)],
  },
  {
    path: '/hotels/registry/{registryId}',
    operationId: 'getHotelByRegistryId',
    tag: 'Registry',
    summary: 'Get a hotel by its registry id',
    description: SCOPED,
    kind: 'single',
    isScoped: true,
    parameters: [
      pathParameter(
        'registryId',
        RegistryId,
        'The registry id: decimal digits with an optional minus',
        hotel.registry_id,
      ),
    ],
    errors: ['registryIdNotInteger'],
  },
  {
    path: '/hotels/batch',
    operationId: 'batchHotelsById',
    tag: 'Hotels',
    summary: 'Get up to 1000 hotels by their ids',
    description: LEFT_OUT,
    kind: 'batch',
    body: ['IdBatch', { ids: [hotel.id, 'htl_unknown'] }],
    errors: ['idsMissing', 'idNotString', 'tooManyIds'],
  },
  {
    path: '/hotels/channel/batch',
    operationId: 'batchHotelsByChannelId',
    tag: 'Channel',
    summary: 'Get up to 1000 hotels by their channel ids',
    description: LEFT_OUT,
    kind: 'batch',
    body: ['ChannelBatch', { channel_ids: [hotel.channel_id, 'CH-unknown'] }],
    errors: ['channelIdsMissing', 'channelIdNotString', 'tooManyChannelIds'],
  },
  {
    path: '/hotels/registry/batch',
    operationId: 'batchHotelsByRegistryId',
    tag: 'Registry',
    summary: 'Get up to 1000 hotels by their registry ids',
    description: `${SCOPED} ${LEFT_OUT}`,
    kind: 'batch',
    isScoped: true,
    body: ['RegistryBatch', { registry_ids: [hotel.registry_id, '7'] }],
    errors: ['registryIdsMissing', 'registryIdNotInteger', 'tooManyRegistryIds'],
  },
];

/** Parameters of several operations, by their names in the document. */
export const parameters = {
  RequestId: {
    name: 'x-request-id',
    in: 'header',
    description:
      'An id for the request, echoed, and normally logged if the response is a 5xx or slow. It is ignored unless well-formed',
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
const REQUEST_ID_PARAMETER = ref('parameters', 'RequestId');
const IF_NONE_MATCH_PARAMETER = ref('parameters', 'IfNoneMatch');

/** Returns the paths of the document with the operations. */
export function paths(): Record<string, object> {
  const described = operations.map((operation): [path: string, object] => {
    const { path, operationId, tag, summary, description, isScoped, body, errors = [] } = operation;
    const kind = KINDS[operation.kind];
    const { example } = kind;
    const examples = {
      scoped: { summary: 'With the registry scope', value: example(hotel) },
      ...(!isScoped && {
        unscoped: { summary: 'Without it', value: example({ ...hotel, registry_id: null }) },
      }),
    };
    const common = { operationId, tags: [tag], summary, description };
    const all = failures([...errors, ...(isScoped ? (['forbidden'] as const) : []), ...kind.errors]);
    const ok = success(kind, examples);
    if (!body) {
      const given = [...(operation.parameters ?? []), IF_NONE_MATCH_PARAMETER, REQUEST_ID_PARAMETER];
      return [
        path,
        { get: { ...common, parameters: given, responses: { 200: ok, 304: notModified(kind), ...all } } },
      ];
    }
    const [schema, value] = body;
    const requestBody = {
      required: true,
      description: 'At most 1 MiB. Duplicates count towards the limit of ids',
      content: {
        'application/json': {
          schema: ref('schemas', schema),
          examples: { some: { summary: 'Two ids; no hotel has the second', value } },
        },
      },
    };
    return [
      path,
      {
        post: { ...common, parameters: [REQUEST_ID_PARAMETER], requestBody, responses: { 200: ok, ...all } },
      },
    ];
  });
  return Object.fromEntries(described);
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
