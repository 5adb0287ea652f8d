import { MAX_KEYS } from '../cache/arena/arena.ts';
import { MAX_CHANGES } from '../changes/change-log.ts';
import { Hotel, Image } from '../hotels/hotel.ts';
import { objectOf } from '../lib/json-schema.ts';
import { RegistryId, RegistryIdText } from './parameters.ts';

type Json = Record<string, unknown>;

const ids = (items: object, description: string) => ({
  type: 'array',
  items,
  maxItems: MAX_KEYS,
  description,
});

const ChannelBatch = objectOf({
  channel_ids: ids({ type: 'string' }, 'Channel ids to look up, case-sensitive'),
});
const RegistryBatch = objectOf({
  registry_ids: ids(
    { anyOf: [RegistryId, RegistryIdText] },
    'Registry ids to look up: integers, or strings that contain an integer',
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
    description: 'To be applied in this order. A hotel may come more than once, always in its present state',
  },
  next: { type: 'string', minLength: 1, description: 'The opaque token for `after` in the next request' },
  more: { type: 'boolean', description: 'False if your copy is up to date after this response' },
});

const ErrorResponse = objectOf({
  error: { type: 'string', minLength: 1, description: 'Message that says what is wrong' },
});

/** Schemas of the bodies, by their names in the document. */
export function bodySchemas(): Record<string, Json> {
  const hotel = plain(Hotel) as { properties: { images: Json } };
  hotel.properties.images.items = ref('Image');
  return {
    Change: plain(Change),
    ChangePage: plain(ChangePage),
    Hotel: hotel,
    Image: plain(Image),
    ErrorResponse: plain(ErrorResponse),
    ChannelBatch: plain(ChannelBatch),
    RegistryBatch: plain(RegistryBatch),
  };
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
