import { Compile } from 'typebox/schema';
import { MAX_IMAGES, valueSchemaOf } from '../../hotels/hotel.ts';
import { FIELDS_OF_ROW, type HotelRow } from '../../hotels/row.ts';
import { EMAIL, MAX_EMAIL_LENGTH, MAX_URI_LENGTH, URI } from '../../hotels/valid-values.ts';
import { toUri } from './iri.ts';

/** Checked hotel of an import line. An absent field is null. */
type ImportedHotel = Omit<HotelRow, 'images'> & {
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
}

type Fields = { [field: string]: unknown };

/** Columns that an import writes, in the order of `ImportedHotel`. */
export const IMPORTED_COLUMNS: (keyof ImportedHotel)[] = FIELDS_OF_ROW;
const NULLABLE = IMPORTED_COLUMNS.filter((column) => !['id', 'name', 'images'].includes(column));

/** Maximum number of faults of a line that are named. */
const MAX_FAULTS = 20;
// Patterns count code points like PostgreSQL, because typebox compiles them with the flag u. PostgreSQL stores neither
// NUL nor lone surrogates.
const CHARACTER = '[^\\0\\uD800-\\uDFFF]';
const IN_ASCII_WITHOUT_BLANKS = /^[\x00-\x1f\x21-\x7f]*$/;

/** Test of a value, and what the report of a fault says about it. */
interface Rule {
  must: string;
  holds(value: unknown): boolean;
}

function rule(must: string, schema: object): Rule {
  const validator = Compile(schema);
  return { must, holds: (value) => validator.Check(value) };
}

const text = (must: string, pattern: string, more = {}) => rule(must, { type: 'string', pattern, ...more });
const orNull = ({ must, holds }: Rule): Rule => ({
  must: `${must} or null`,
  holds: (value) => value === null || holds(value),
});
const plain = text('a string without NUL and broken characters', `^${CHARACTER}*$`);
const identifier = text(
  'a string of 1 to 255 characters, without NUL and broken characters, other than "." and ".."',
  `^(?!\\.{1,2}$)${CHARACTER}{1,255}$`,
);
const uri = text(`an http or https URI or IRI, as a URI of at most ${MAX_URI_LENGTH} characters,`, URI, {
  maxLength: MAX_URI_LENGTH,
});

const MUST: { [field in keyof HotelRow]?: string } = {
  country_code: 'an ISO 3166-1 alpha-2 code of two capital letters',
  language: 'an ISO 639-1 code of two small letters',
  star_rating: 'a number from 0 to 5 in half steps',
};
const image: Record<string, Rule> = { url: uri, caption: orNull(plain) };
const INTEGER = rule('', { anyOf: [{ type: 'integer' }, { type: 'string', pattern: '^-?[0-9]{1,400}$' }] });
const RULES: Record<string, Rule> = {
  name: text('a string that is not empty, without NUL and broken characters', `^${CHARACTER}+$`),
  images: rule(`an array of at most ${MAX_IMAGES} images, each {"url","caption"}`, {
    type: 'array',
    items: { type: 'object', required: ['url'] },
    maxItems: MAX_IMAGES,
  }),
  registry_id: {
    must: 'an integer within ±(2^53-1) or a string that holds one',
    holds: (value) => INTEGER.holds(value) && Number.isSafeInteger(Number(value)),
  },
};
for (const column of IMPORTED_COLUMNS) RULES[column] ??= ruleOf(column);
for (const column of NULLABLE) RULES[column] = orNull(RULES[column]!);

/** Returns the rule that follows from the schema of a field in the API. */
function ruleOf(field: keyof HotelRow): Rule {
  const schema = valueSchemaOf(field);
  const { type, format, maxLength, minimum, maximum } = schema;
  if (format === 'uri') return uri;
  if (format === 'date') return text('a real date, YYYY-MM-DD,', '^(?!0000)', { format });
  if (format === 'email')
    return text('an e-mail address in ASCII with a dot in its domain', EMAIL, {
      maxLength: MAX_EMAIL_LENGTH,
    });
  const must = MUST[field];
  if (must) return rule(must, schema);
  if (type === 'string') return maxLength === undefined ? plain : identifier;
  return rule(`${type === 'integer' ? 'an integer' : 'a number'} from ${minimum} to ${maximum}`, schema);
}

/**
 * Checks a hotel from JSON or CSV; an error is the fault of its line. Converts IRIs to URIs, and empty texts to null where null is
 * allowed, in place. The fault names the wrong fields, up to 20 of them.
 */
export function readHotel(value: unknown): Checked {
  const checked: Checked = { hotel: {}, fault: undefined, convertedUris: 0 };
  if (value instanceof Error) return { ...checked, fault: value.message };
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { ...checked, fault: 'not a JSON object' };
  const given = value as Partial<ImportedHotel>;
  change(given, checked);
  const faults = faultsOf(given);
  if (faults.length > 0) {
    const more = faults.length > MAX_FAULTS ? [`and ${faults.length - MAX_FAULTS} more faults`] : [];
    const fault = [...faults.slice(0, MAX_FAULTS), ...more].join('; ');
    return { ...checked, hotel: identifier.holds(given.id) ? { id: given.id! } : {}, fault };
  }
  const hotel = Object.fromEntries(IMPORTED_COLUMNS.map((column) => [column, given[column] ?? null]));
  checked.hotel = {
    ...hotel,
    images: (given.images ?? []).map(({ url, caption }) => ({ url, caption: caption ?? null })),
    registry_id: hotel.registry_id === null ? null : String(BigInt(hotel.registry_id as string)),
  };
  return checked;
}

/** Changes the values of a hotel in place, also of an invalid one, and counts converted IRIs. */
function change(hotel: Fields, counts: Pick<Checked, 'convertedUris'>): void {
  const toNull = (holder: Fields, field: string) => {
    if (holder[field] === '') holder[field] = null;
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

function faultsOf(hotel: Fields): string[] {
  const faults = ['id', 'name']
    .filter((field) => hotel[field] === undefined)
    .map((field) => `${field} is missing`);
  const check = (holder: Fields, rules: Record<string, Rule>, path: string) => {
    for (const [field, value] of Object.entries(holder)) {
      const rule = Object.hasOwn(rules, field) ? rules[field]! : undefined;
      if (!rule) faults.push(`unknown field ${JSON.stringify(path + field)}`);
      else if (!rule.holds(value)) faults.push(`${path}${field} must be ${rule.must}`);
    }
  };
  const { certified: _, ...fields } = hotel;
  check(fields, RULES, '');
  if (RULES.images!.holds(hotel.images))
    for (const [index, each] of (hotel.images as Fields[]).entries()) check(each, image, `images/${index}/`);
  return faults;
}
