import { Compile } from 'typebox/schema';
import { Settings } from 'typebox/system';
import { MAX_IMAGES, valueSchemaOf } from '../../hotels/hotel.ts';
import { FIELDS_OF_ROW, type HotelRow } from '../../hotels/row.ts';
import { EMAIL, MAX_EMAIL_LENGTH, MAX_URI_LENGTH, URI } from '../../hotels/valid-values.ts';
import { toUri } from './iri.ts';

/** Checked hotel of an import line. An absent field is null. */
export type ImportedHotel = Omit<HotelRow, 'images'> & {
  images: { url: string; caption: string | null }[];
};

/** Content of a record. */
export interface Checked {
  /** of a wrong record only the id, if that is valid */
  hotel: Partial<ImportedHotel>;
  /** undefined for a valid record */
  fault: string | undefined;
  /** number of IRIs converted to URIs, and of URLs with encoded blanks */
  convertedUris: number;
  /** number of empty texts that became null */
  nulls: number;
}

// the report of a line names all of its wrong fields, not the first eight faults, but not those of a million elements
const MAX_FAULTS = 1_000;
Settings.Set({ maxErrors: MAX_FAULTS });

// Patterns count code points like PostgreSQL, because typebox compiles them with the flag u. PostgreSQL stores neither
// NUL nor lone surrogates.
const CHARACTER = '[^\\0\\uD800-\\uDFFF]';
const IN_ASCII_WITHOUT_BLANKS = /^[\x00-\x1f\x21-\x7f]*$/;
/** Beginning of a URL that has a scheme. */
const SCHEME = /^[a-z][a-z0-9+.-]*:/i;

/** JSON Schema of a value, with its description for the report of a fault. */
type Described = { must: string; [keyword: string]: unknown };

const text = (must: string, pattern: string) => ({ type: 'string', pattern, must });
const orNull = (schema: Described) => ({ anyOf: [schema, { type: 'null' }], must: `${schema.must} or null` });
const plain = text('a string without NUL and broken characters', `^${CHARACTER}*$`);
const identifier = text(
  'a string of 1 to 255 characters, without NUL and broken characters, other than "." and ".."',
  `^(?!\\.{1,2}$)${CHARACTER}{1,255}$`,
);
const uri = {
  ...text(`an http or https URI or IRI, as a URI of at most ${MAX_URI_LENGTH} characters,`, URI),
  maxLength: MAX_URI_LENGTH,
};
const day = { ...text('a real date, YYYY-MM-DD,', '^(?!0000)'), format: 'date' };
const email = {
  ...text('an e-mail address in ASCII with a dot in its domain', EMAIL),
  maxLength: MAX_EMAIL_LENGTH,
};

const image: Record<string, Described> = { url: uri, caption: orNull(plain) };
/** Fields whose rules or descriptions do not follow from their schema in the API. */
const OWN: { [field in keyof HotelRow]?: Described } = {
  name: text('a string that is not empty, without NUL and broken characters', `^${CHARACTER}+$`),
  country_code: {
    ...valueSchemaOf('country_code'),
    must: 'an ISO 3166-1 alpha-2 code of two capital letters',
  },
  language: { ...valueSchemaOf('language'), must: 'an ISO 639-1 code of two small letters' },
  star_rating: { ...valueSchemaOf('star_rating'), must: 'a number from 0 to 5 in half steps' },
  images: {
    type: 'array',
    items: { type: 'object', properties: image, required: ['url'], additionalProperties: false },
    maxItems: MAX_IMAGES,
    must: 'an array of at most 3 images, each {"url","caption"}',
  },
  registry_id: {
    anyOf: [{ type: 'integer' }, { type: 'string', pattern: '^-?[0-9]{1,400}$' }],
    must: 'an integer within ±(2^53-1) or a string that holds one',
  },
};

/** Returns the rules of a field's value other than null. */
function rulesOf(field: keyof HotelRow): Described {
  const own = OWN[field];
  if (own) return own;
  const schema = valueSchemaOf(field);
  const { type, format, maxLength, minimum, maximum } = schema;
  if (format === 'uri') return uri;
  if (format === 'date') return day;
  if (format === 'email') return email;
  if (type === 'string') return maxLength === undefined ? plain : identifier;
  return {
    ...schema,
    must: `${type === 'integer' ? 'an integer' : 'a number'} from ${minimum} to ${maximum}`,
  };
}

/** Columns that an import writes, in the order of `ImportedHotel`. */
export const IMPORTED_COLUMNS: (keyof ImportedHotel)[] = FIELDS_OF_ROW;

const NULLABLE = IMPORTED_COLUMNS.filter((column) => !['id', 'name', 'images'].includes(column));
const fields: Record<string, Partial<Described>> = { certified: {} };
for (const column of IMPORTED_COLUMNS)
  fields[column] = NULLABLE.includes(column) ? orNull(rulesOf(column)) : rulesOf(column);

const Hotel = Compile({
  type: 'object',
  properties: fields,
  required: ['id', 'name'],
  additionalProperties: false,
});
const Id = Compile(identifier);

/**
 * Checks a hotel from JSON or CSV; an error is the fault of its line, `undefined` no hotel. Converts IRIs to URIs, and empty
 * texts to null where null is allowed, in place. The fault names the wrong fields, up to 1,000 faults.
 */
export function readHotel(value: unknown): Checked {
  const checked: Checked = { hotel: {}, fault: undefined, convertedUris: 0, nulls: 0 };
  if (value === undefined) return checked;
  if (value instanceof Error) return { ...checked, fault: value.message };
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { ...checked, fault: 'not a JSON object' };
  const given = value as Partial<ImportedHotel>;
  change(given, checked);
  const faults = Hotel.Check(value) ? new Set<string>() : explain(Hotel.Errors(value)[1], given);
  const registryId: unknown = given.registry_id ?? null;
  if (registryId !== null && !Number.isSafeInteger(Number(registryId)))
    faults.add(`registry_id must be ${fields.registry_id!.must}`);
  if (faults.size > 0)
    return { ...checked, hotel: Id.Check(given.id) ? { id: given.id } : {}, fault: [...faults].join('; ') };
  const hotel = Object.fromEntries(IMPORTED_COLUMNS.map((column) => [column, given[column] ?? null]));
  checked.hotel = {
    ...hotel,
    images: (given.images ?? []).map(({ url, caption }) => ({ url, caption: caption ?? null })),
    registry_id: registryId === null ? null : String(BigInt(registryId as string | number)),
  };
  return checked;
}

type Fields = { [field: string]: unknown };

/** Changes the values of a hotel in place, also of an invalid one, and counts them. */
function change(hotel: Fields, counts: Pick<Checked, 'nulls' | 'convertedUris'>): void {
  const toNull = (holder: Fields, field: string) => {
    if (holder[field] !== '') return;
    holder[field] = null;
    counts.nulls++;
  };
  const convert = (holder: Fields, field: string) => {
    const iri = holder[field];
    if (typeof iri !== 'string' || IN_ASCII_WITHOUT_BLANKS.test(iri)) return;
    holder[field] = toUri(iri);
    if (holder[field] !== iri) counts.convertedUris++;
  };
  for (const column of NULLABLE) toNull(hotel, column);
  convert(hotel, 'website_url');
  convert(hotel, 'certification_url');
  for (const image of Array.isArray(hotel.images) ? hotel.images : []) {
    if (typeof image !== 'object' || image === null) continue;
    toNull(image, 'caption');
    convert(image, 'url');
  }
}

/** Describes the faults that the schema finds, each once. */
function explain(
  faults: { instancePath: string; keyword: string; params: object }[],
  { images }: Partial<ImportedHotel>,
): Set<string> {
  const reasons = new Set<string>();
  // unknown fields are named behind one fault for each
  if (faults.length >= MAX_FAULTS) reasons.add(`it has ${MAX_FAULTS} faults or more`);
  for (const { instancePath, keyword, params } of faults) {
    const [field = '', index, part] = instancePath.slice(1).split('/');
    const { additionalProperties = [], requiredProperties = [] } = params as { [name: string]: string[] };
    if (keyword === 'additionalProperties') {
      for (const name of additionalProperties)
        reasons.add(`unknown field ${JSON.stringify(field ? `${field}/${index}/${name}` : name)}`);
    } else if (keyword === 'required' && field === '') {
      for (const name of requiredProperties) reasons.add(`${name} is missing`);
      // the keyword `boolean` repeats the report of an unknown field
    } else if (keyword !== 'boolean') {
      const { must } = part === undefined ? fields[field]! : image[part]!;
      const url: unknown = part === 'url' && images![Number(index)]!.url;
      const isRelative = typeof url === 'string' && url !== '' && !SCHEME.test(url);
      const but = isRelative ? ` but ${JSON.stringify(url)} is relative: the URL before it is missing` : '';
      reasons.add(`${part === undefined ? field : instancePath.slice(1)} must be ${must}${but}`);
    }
  }
  return reasons;
}
