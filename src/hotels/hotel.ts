import Type, { type Static, type TSchema } from 'typebox';
import { MAX_EMAIL_LENGTH, MAX_URI_LENGTH } from './valid-values.ts';

/**
 * Hotel of the API, field by field, in the order of a response. Rows and entries derive their types from it, the
 * importer its bounds, the API documentation its descriptions. The constraints of the table (sql/001-hotels.sql) have
 * the same bounds.
 */
/** Maximum number of photos of a hotel. */
export const MAX_IMAGES = 3;

const orNull = <T extends TSchema>(schema: T, description: string) =>
  Type.Union([schema, Type.Null()], { description });
const text = () => Type.String();
/** The pattern checks the parts that `format` does not: the scheme, a host, and no IP literal. */
const uri = (options: object = {}) =>
  Type.String({
    format: 'uri',
    pattern: '^[Hh][Tt][Tt][Pp][Ss]?://[^\\s\\[\\]]+$',
    maxLength: MAX_URI_LENGTH,
    ...options,
  });
const day = () => Type.String({ format: 'date' });

export const Image = Type.Object({
  url: uri({ description: 'Public address of the image' }),
  caption: orNull(text(), 'Short caption; null if not available'),
});

export const Hotel = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 255, description: 'Unique hotel identifier: an opaque string' }),
  name: Type.String({ minLength: 1, description: 'Hotel name' }),
  description: orNull(text(), 'Marketing description; null if not available'),
  address: orNull(text(), 'Full street address as one string'),
  postal_code: orNull(text(), 'Postal code; null if not available'),
  city: orNull(text(), 'City name; null if not available'),
  country_code: orNull(
    Type.String({ pattern: '^[A-Z]{2}$' }),
    'ISO 3166-1 alpha-2 code; null if not available',
  ),
  latitude: orNull(Type.Number({ minimum: -90, maximum: 90 }), 'Decimal degrees'),
  longitude: orNull(Type.Number({ minimum: -180, maximum: 180 }), 'Decimal degrees'),
  language: orNull(Type.String({ pattern: '^[a-z]{2}$' }), 'Primary language at the hotel, ISO 639-1 code'),
  star_rating: orNull(
    Type.Number({ minimum: 0, maximum: 5, multipleOf: 0.5 }),
    'Official star rating in whole or half steps; null if not available. Currently null for all hotels',
  ),
  room_count: orNull(
    Type.Integer({ minimum: 0, maximum: 2_147_483_647 }),
    'Total rooms; null if not configured. Populated progressively',
  ),
  website_url: orNull(uri(), "The hotel's own website; null if not available"),
  email: orNull(
    Type.String({ format: 'email', maxLength: MAX_EMAIL_LENGTH }),
    'Reception e-mail address; null if not available. Currently null for all hotels',
  ),
  images: Type.Array(Image, {
    maxItems: MAX_IMAGES,
    description: 'Up to 3 photos; empty when there are none',
  }),
  certified: Type.Boolean({
    description: 'True from `certified_from` to `certified_until`, both days included, in UTC',
  }),
  certified_from: orNull(day(), 'Date on which the certification becomes valid'),
  certified_until: orNull(day(), 'Date on which the certification expires'),
  certification_url: orNull(
    uri(),
    'Where the certification badge links to; null when the hotel is not certified. Read it, do not hardcode it',
  ),
  channel_id: orNull(
    Type.String({ minLength: 1, maxLength: 255 }),
    'Channel integration identifier: a string, not an integer',
  ),
  registry_id: orNull(
    Type.Integer({ format: 'int64', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
    'Registry property identifier, unique across hotels; null if the hotel has none, or if the key lacks the `registry` scope',
  ),
});
export type Hotel = Static<typeof Hotel>;

/** Returns the schema of a field's value other than null. */
export function valueSchemaOf(field: keyof Hotel): TSchema {
  const schema: TSchema & { anyOf?: TSchema[] } = Hotel.properties[field];
  return schema.anyOf?.[0] ?? schema;
}
