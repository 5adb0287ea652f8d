import { Compile } from 'typebox/schema';
import { type FieldSchema, Hotel, Image, valueSchemaOf } from '../../hotels/hotel.ts';
import { FIELDS_OF_ROW, type HotelRow } from '../../hotels/row.ts';
import { EMAIL, URI } from '../../hotels/valid-values.ts';
import { toUri } from './iri.ts';

/** Content of a record. */
export interface Checked {
  /** an absent field is null; of a wrong record only the id, if that is valid */
  hotel: Partial<HotelRow>;
  /** undefined for a valid record */
  fault: string | undefined;
  /** number of IRIs converted to URIs, and of URLs with encoded blanks */
  convertedUris: number;
}

type Fields = { [field: string]: unknown };

/** Columns that an import writes. */
export const IMPORTED_COLUMNS = FIELDS_OF_ROW;

/** Maximum number of faults of a line that are named. */
const MAX_FAULTS = 20;
// Patterns count code points like PostgreSQL, because typebox compiles them with the flag u. PostgreSQL stores neither
// NUL nor lone surrogates.
const CHARACTER = '[^\\0\\uD800-\\uDFFF]';
const IN_ASCII_WITHOUT_BLANKS = /^[\x00-\x1f\x21-\x7f]*$/;

/** Test of a value, and what the report of a fault says about it. */
interface Test {
  must: string;
  holds(value: unknown): boolean;
}

function test(must: string, schema: object): Test {
  const validator = Compile(schema);
  return { must, holds: (value) => validator.Check(value) };
}

const text = (must: string, pattern: string, more = {}) => test(must, { type: 'string', pattern, ...more });
const number = (schema: FieldSchema) => {
  const { type, minimum, maximum, multipleOf } = schema;
  const must = `${type === 'integer' ? 'an' : 'a'} ${type} from ${minimum} to ${maximum}`;
  return test(multipleOf ? `${must} in steps of ${multipleOf}` : must, schema);
};
const INTEGER = test('', { anyOf: [{ type: 'integer' }, { type: 'string', pattern: '^-?[0-9]{1,400}$' }] });

/** Tests by format or type: of what the schema in the API allows, and PostgreSQL stores. */
const TESTS: Record<string, (schema: FieldSchema) => Test> = {
  uri: ({ maxLength }) =>
    text(`an http or https URI or IRI, as a URI of at most ${maxLength} characters,`, URI, { maxLength }),
  email: ({ maxLength }) => text('an e-mail address in ASCII with a dot in its domain', EMAIL, { maxLength }),
  date: ({ format }) => text('a real date, YYYY-MM-DD,', '^(?!0000)', { format }),
  string: (schema) => {
    const { pattern, minLength, maxLength } = schema;
    if (pattern) return test(`a string that matches ${pattern}`, schema);
    if (maxLength)
      return text(
        `a string of 1 to ${maxLength} characters, without NUL and broken characters, other than "." and ".."`,
        `^(?!\\.{1,2}$)${CHARACTER}{1,${maxLength}}$`,
      );
    const size = minLength ? ' that is not empty,' : '';
    return text(`a string${size} without NUL and broken characters`, `^${CHARACTER}{${minLength ?? 0},}$`);
  },
  int64: () => ({
    must: 'an integer within ±(2^53-1) or a string that holds one',
    holds: (value) => INTEGER.holds(value) && Number.isSafeInteger(Number(value)),
  }),
  integer: number,
  number,
  boolean: () => test('ignored', {}),
  array: ({ type, maxItems }) =>
    test(`an array of at most ${maxItems} images, each {"url","caption"}`, {
      ...{ type, maxItems },
      items: { type: 'object', required: ['url'] },
    }),
};

interface Rule extends Test {
  isNullable: boolean;
  isUri: boolean;
}

function rulesOf(properties: Record<string, object>): Map<string, Rule> {
  const rules = Object.entries(properties).map(([field, schema]): [string, Rule] => {
    const value = valueSchemaOf(schema);
    const { must, holds } = TESTS[value.format ?? value.type]!(value);
    const isUri = value.format === 'uri';
    if (value === schema) return [field, { must, holds, isUri, isNullable: false }];
    const orNull = { must: `${must} or null`, holds: (given: unknown) => given === null || holds(given) };
    return [field, { ...orNull, isUri, isNullable: true }];
  });
  return new Map(rules);
}

const RULES = rulesOf(Hotel.properties);
const IMAGE_RULES = rulesOf(Image.properties);

/**
 * Checks a hotel from JSON or CSV; an error is the fault of its line. Converts IRIs to URIs, and empty texts to null where null is
 * allowed, in place. The fault names the wrong fields, up to 20 of them.
 */
export function readHotel(value: unknown): Checked {
  const checked: Checked = { hotel: {}, fault: undefined, convertedUris: 0 };
  if (value instanceof Error) return { ...checked, fault: value.message };
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { ...checked, fault: 'not a JSON object' };
  const given = value as Partial<HotelRow>;
  change(given, checked);
  const faults = faultsOf(given);
  if (faults.length > 0) {
    const more = faults.length > MAX_FAULTS ? [`and ${faults.length - MAX_FAULTS} more faults`] : [];
    const fault = [...faults.slice(0, MAX_FAULTS), ...more].join('; ');
    return { ...checked, hotel: RULES.get('id')!.holds(given.id) ? { id: given.id! } : {}, fault };
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
  const changeBy = (rules: Map<string, Rule>, holder: Fields) => {
    for (const [field, { isNullable, isUri }] of rules) {
      const value = holder[field];
      if (isNullable && value === '') holder[field] = null;
      if (!isUri || typeof value !== 'string' || IN_ASCII_WITHOUT_BLANKS.test(value)) continue;
      holder[field] = toUri(value);
      if (holder[field] !== value) counts.convertedUris++;
    }
  };
  changeBy(RULES, hotel);
  for (const image of Array.isArray(hotel.images) ? hotel.images : [])
    if (typeof image === 'object' && image !== null) changeBy(IMAGE_RULES, image);
}

function faultsOf(hotel: Fields): string[] {
  const faults = ['id', 'name']
    .filter((field) => hotel[field] === undefined)
    .map((field) => `${field} is missing`);
  const check = (rules: Map<string, Rule>, holder: Fields, path: string) => {
    for (const [field, value] of Object.entries(holder)) {
      const rule = rules.get(field);
      if (!rule) faults.push(`unknown field ${JSON.stringify(path + field)}`);
      else if (!rule.holds(value)) faults.push(`${path}${field} must be ${rule.must}`);
    }
  };
  check(RULES, hotel, '');
  if (RULES.get('images')!.holds(hotel.images))
    for (const [index, image] of (hotel.images as Fields[]).entries())
      check(IMAGE_RULES, image, `images/${index}/`);
  return faults;
}
