import Type from 'typebox';
import { Hotel, Image } from '../hotels/hotel.ts';
import { ChannelBatch, RegistryBatch } from '../http/batch-body.ts';

type Json = Record<string, unknown>;

const ErrorResponse = Type.Object({
  error: Type.String({ minLength: 1, description: 'What is wrong, in a sentence' }),
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
