import type { XStatic } from 'typebox/schema';
import { MAX_ID_CHARACTERS } from './namespace.ts';

export const MAX_IMAGES = 3;

/** Returns the JSON Schema of an object that has all these properties. */
export function objectOf<const Properties extends Record<string, object>>(properties: Properties) {
  // typebox derives the required fields from the elements of a tuple only
  const required = Object.keys(properties) as [keyof Properties & string];
  return { type: 'object', required, properties } as const;
}

const orNull = <const Schema extends object>(schema: Schema, description: string, example: unknown) =>
  ({ anyOf: [schema, { type: 'null' }], description, examples: [example] }) as const;
const text = { type: 'string' } as const;
const identifier = { ...text, minLength: 1, maxLength: MAX_ID_CHARACTERS } as const;
/** The pattern checks the parts that `format` does not: the scheme, a host, and no IP literal. */
const uri = {
  ...text,
  format: 'uri',
  pattern: '^[Hh][Tt][Tt][Pp][Ss]?://[^\\s\\[\\]]+$',
  maxLength: 2048,
} as const;
const day = { ...text, format: 'date' } as const;

/** Image of the examples. `seed` generates a hotel with the ids of the examples. */
const IMAGE = {
  url: 'https://cdn.example.com/hotels/htl_sliji9ej/1.jpg',
  caption: 'Terrace in the evening',
};

export const Image = objectOf({
  url: {
    ...uri,
    description: 'Public address of the image, for which no key is needed',
    examples: [IMAGE.url],
  },
  caption: orNull(text, 'Short caption; null if not available', IMAGE.caption),
});

/**
 * Hotel of the API, field by field, in the order of a response. Columns, entries, imports, documents, their example and tests
 * are derived from it. A new field goes before `registry_id`. It also needs:
 * - a migration: the column with its bounds, and a `hotel_json_fits` with it, its grant, its `extra_float_digits` and the constraint;
 * - a line in `Hotel` of docs/api/clients/client.ts, under Versions in docs/api/build/guide.html, and in docs/changelog.md.
 * Then `npm run build:docs`.
 */
export const Hotel = objectOf({
  id: {
    ...identifier,
    description: 'Unique hotel identifier: an opaque string, never `.` or `..`',
    examples: ['htl_sliji9ej'],
  },
  name: { ...text, minLength: 1, description: 'Hotel name', examples: ['Grand Hotel Meridian'] },
  description: orNull(
    text,
    'Marketing description; null if not available',
    'A quiet house by the river, ten minutes from the old town. Breakfast is served until eleven.',
  ),
  address: orNull(text, 'Full street address as one string', '1 Rue du Quai, 45750 Saint-Pryvé-Saint-Mesmin'),
  postal_code: orNull(text, 'Postal code; null if not available', '45750'),
  city: orNull(text, 'City name; null if not available', 'Saint-Pryvé-Saint-Mesmin'),
  country_code: orNull(
    { ...text, pattern: '^[A-Z]{2}$' },
    'ISO 3166-1 alpha-2 code; null if not available',
    'FR',
  ),
  latitude: orNull({ type: 'number', minimum: -90, maximum: 90 }, 'Decimal degrees', 47.883581),
  longitude: orNull({ type: 'number', minimum: -180, maximum: 180 }, 'Decimal degrees', 1.869862),
  language: orNull({ ...text, pattern: '^[a-z]{2}$' }, 'Primary language at the hotel, ISO 639-1 code', 'fr'),
  star_rating: orNull(
    { type: 'number', minimum: 0, maximum: 5, multipleOf: 0.5 },
    'Official star rating in whole or half steps; null if not available. Currently null for all hotels',
    null,
  ),
  room_count: orNull(
    { type: 'integer', minimum: 0, maximum: 2_147_483_647 },
    'Total rooms; null if not configured. Populated progressively',
    66,
  ),
  website_url: orNull(uri, "The hotel's own website; null if not available", 'https://meridian.example.com/'),
  email: orNull(
    { ...text, format: 'email', maxLength: 254 },
    'Reception e-mail address; null if not available. Currently null for all hotels',
    null,
  ),
  images: {
    type: 'array',
    items: Image,
    maxItems: MAX_IMAGES,
    description:
      "Up to 3 photos from the service's CDN, each with a `url` (an http or https URI of at most 2048 characters, for which no " +
      'key is needed) and a `caption` or null; empty when there are none',
    examples: [[IMAGE, { url: IMAGE.url.replace('1.jpg', '2.jpg'), caption: null }]],
  },
  certified: {
    type: 'boolean',
    description:
      'True from `certified_from` to `certified_until`, both days included, in UTC; false if either is null',
    examples: [true],
  },
  certified_from: orNull(day, 'Date on which the certification becomes valid', '2025-01-01'),
  certified_until: orNull(day, 'Date on which the certification expires', '2034-12-31'),
  certification_url: orNull(
    uri,
    'Where the certification badge links to; null if the hotel is not certified or has no such page. Read it, do not hardcode it',
    'https://certificates.example.com/htl_sliji9ej',
  ),
  channel_id: orNull(
    identifier,
    'Channel integration identifier: a string, not an integer. Unique across hotels, case-sensitive, never `.` or `..`',
    'CH100011',
  ),
  registry_id: orNull(
    { type: 'integer', format: 'int64', minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER },
    'Registry property identifier, unique across hotels; null if the hotel has none, or if the key lacks the `registry` scope',
    500011,
  ),
});
export type Hotel = XStatic<typeof Hotel>;

/** Hotel of the examples of the documents, as a key with the `registry` scope sees it. */
export const EXAMPLE_HOTEL = Object.fromEntries(
  Object.entries(Hotel.properties).map(([field, { examples }]) => [field, examples[0]]),
) as unknown as Hotel;

/** Returns the schema of a field's value other than null, which is the schema itself if null is not allowed. */
export function valueSchemaOf(schema: object): FieldSchema {
  return ('anyOf' in schema ? (schema.anyOf as object[])[0] : schema) as FieldSchema;
}

/** Keywords that decide how a field is selected, imported and described. */
export interface FieldSchema {
  type: string;
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  multipleOf?: number;
  maxItems?: number;
}
