import { MAX_CHANGES } from '../../../src/changes/log-queries.ts';
import { Hotel, Image, objectOf } from '../../../src/hotels/hotel.ts';
import {
  DEFAULT_CHANGES,
  DEFAULT_LIMIT,
  DEFAULT_OFFSET,
  DEFAULT_WAIT_S,
  INTEGER,
  MAX_LIMIT,
  MAX_WAIT_S,
  MIN_LIMIT,
} from '../../../src/http/query.ts';
import { WELL_FORMED } from '../../../src/http/received-request.ts';
import { MAX_KEYS } from '../../../src/wasm/constants.ts';

type Json = Record<string, unknown>;

/** A hotel id or channel id in a path. An id longer than any hotel's matches nothing. */
export const PathId = { type: 'string', minLength: 1 };
/** A registry id in a path or query: decimal digits with an optional minus; those beyond 64 bits match nothing. */
export const RegistryId = { type: 'integer', format: 'int64' };

export const RequestId = { type: 'string', pattern: WELL_FORMED.source };

export const ListParameters = {
  limit: {
    type: 'integer',
    minimum: MIN_LIMIT,
    maximum: MAX_LIMIT,
    default: DEFAULT_LIMIT,
    description: 'Maximum number of hotels to return',
  },
  offset: {
    type: 'integer',
    minimum: 0,
    default: DEFAULT_OFFSET,
    description: 'Number of hotels to skip. The `Link` header of a response names the next page',
  },
  registry_id: {
    ...RegistryId,
    description:
      'Only the hotel with this registry id (decimal digits with an optional minus): a list of one hotel, or an empty list. Requires the `registry` scope',
  },
};

export const ChangesParameters = {
  after: {
    type: 'string',
    minLength: 1,
    description:
      'The `next` of the last response that you applied. Without it, the responses begin with all hotels',
  },
  limit: {
    type: 'integer',
    minimum: MIN_LIMIT,
    maximum: MAX_CHANGES,
    default: DEFAULT_CHANGES,
    description: 'Maximum number of changes to return',
  },
  wait: {
    type: 'integer',
    minimum: 0,
    maximum: MAX_WAIT_S,
    default: DEFAULT_WAIT_S,
    description:
      'Seconds to wait for the first change if there is none yet. The response without changes comes after this time at the latest. ' +
      'A change to the hotels that your key may see also ends the wait, normally within one second',
  },
};

const ids = (items: object, description: string) => ({
  type: 'array',
  items,
  maxItems: MAX_KEYS,
  description,
});

const IdBatch = objectOf({ ids: ids({ type: 'string' }, 'Hotel ids to look up') });
const ChannelBatch = objectOf({
  channel_ids: ids({ type: 'string' }, 'Channel ids to look up, case-sensitive'),
});
const RegistryBatch = objectOf({
  registry_ids: ids(
    { anyOf: [{ type: 'integer' }, { type: 'string', pattern: INTEGER.source }] },
    'Registry ids to look up: integers of any size and in any notation, or strings of decimal digits with an optional minus',
  ),
});

const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const Change = objectOf({
  id: Hotel.properties.id,
  hotel: {
    description: 'The hotel in its present state; null if it is gone: remove it from your copy',
    oneOf: [ref('Hotel'), { type: 'null' }],
  },
});
const ChangePage = objectOf({
  changes: {
    type: 'array',
    items: ref('Change'),
    maxItems: MAX_CHANGES,
    description:
      'To be applied in this order. A hotel comes once in a response and may come again in later ones, in its present state',
  },
  next: {
    type: 'string',
    pattern: '^[A-Za-z0-9_-]+$',
    description: 'The opaque token for `after` in the next request, which needs no percent-encoding',
  },
  more: { type: 'boolean', description: 'False if your copy is up to date after this response' },
});

const orNull = (schema: object, description: string) => ({ anyOf: [schema, { type: 'null' }], description });
const Key = objectOf({
  id: { type: 'string', minLength: 1, description: 'Identifies the key to the operator. It is not the key' },
  name: { type: 'string', minLength: 1, description: 'Name that the operator gave the key' },
  scopes: { type: 'array', items: { type: 'string' }, description: 'Scopes of the key: `registry` or none' },
  collection: orNull(
    objectOf({
      id: { type: 'string', minLength: 1 },
      name: orNull({ type: 'string' }, 'Null if the collection does not exist: the key sees no hotel'),
    }),
    'The collection whose hotels the key sees; null: it sees all hotels',
  ),
  expires_at: orNull({ type: 'string', format: 'date-time' }, 'When the key expires, in UTC; null: never'),
  rate_limit: orNull(
    objectOf({ requests: { type: 'integer', minimum: 1 }, window_seconds: { type: 'integer', minimum: 1 } }),
    'Number of requests that the key may send in each window; null: no limit',
  ),
});

const ErrorResponse = objectOf({
  error: { type: 'string', minLength: 1, description: 'Message that says what is wrong' },
});

/** Returns the schemas of the bodies, by their names in the document. */
export function bodySchemas(): Json {
  const schemas = plain({
    Change,
    ChangePage,
    Hotel: { ...Hotel, description: 'The JSON of a hotel has at most 64 KiB' },
    Image,
    Key,
    ErrorResponse,
    IdBatch,
    ChannelBatch,
    RegistryBatch,
  }) as { Hotel: { properties: { images: Json } } };
  schemas.Hotel.properties.images.items = ref('Image');
  return schemas;
}

/** Converts a schema to plain JSON. `anyOf: [a type, null]` becomes a pair of types, which tools display better. */
export function plain(schema: object): Json {
  return JSON.parse(JSON.stringify(schema), (_, value) => {
    const [first, second, ...rest] = (value?.anyOf ?? []) as (Json | undefined)[];
    if (second?.type !== 'null' || rest.length > 0) return value;
    const { anyOf: _replaced, ...outer } = value;
    return { ...outer, ...first, type: [first!.type, 'null'] };
  });
}
