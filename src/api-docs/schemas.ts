import Type, { type TSchema } from 'typebox';
import { MAX_KEYS } from '../cache/arena/arena.ts';
import { Hotel, Image } from '../hotels/hotel.ts';
import { RegistryId, RegistryIdText } from './parameters.ts';

type Json = Record<string, unknown>;

const ids = <T extends TSchema>(id: T, description: string) =>
  Type.Array(id, { maxItems: MAX_KEYS, description });

const ChannelBatch = Type.Object({
  channel_ids: ids(Type.String(), 'Channel ids to look up, case-sensitive'),
});
const RegistryBatch = Type.Object({
  registry_ids: ids(
    Type.Union([RegistryId, RegistryIdText]),
    'Registry ids to look up: integers, or strings that contain an integer',
  ),
});

const ErrorResponse = Type.Object({
  error: Type.String({ minLength: 1, description: 'Message that says what is wrong' }),
});

/** The schemas of the bodies, by their names in the document. */
export function bodySchemas(): Record<string, Json> {
  const hotel = plain(Hotel) as { properties: { images: Json } };
  hotel.properties.images.items = { $ref: '#/components/schemas/Image' };
  return {
    Hotel: hotel,
    Image: plain(Image),
    ErrorResponse: plain(ErrorResponse),
    ChannelBatch: plain(ChannelBatch),
    RegistryBatch: plain(RegistryBatch),
  };
}

/** A schema as plain JSON, in which `anyOf: [a type, null]` has become a pair of types: tools show that better. */
export function plain(schema: object): Json {
  return JSON.parse(JSON.stringify(schema), (_, value) => {
    const [first, second, ...rest] = (value?.anyOf ?? []) as (Json | undefined)[];
    if (second?.type !== 'null' || rest.length > 0) return value;
    const { anyOf: _replaced, ...outer } = value;
    return { ...outer, ...first, type: [first!.type, 'null'] };
  });
}
