import fc from 'fast-check';
import { DAY_MS } from '../lib/clock.ts';
import type { Entry, View } from './entry.ts';
import { Hotel, valueSchemaOf } from './hotel.ts';
import { FIELDS_OF_ROW, type HotelRow } from './row.ts';

/** Fields of the specification's table, in its order. */
export const SPECIFIED_FIELDS = (
  'id name description address postal_code city country_code latitude longitude language star_rating room_count ' +
  'website_url email images certified certified_from certified_until certification_url channel_id registry_id'
).split(' ');

const wellFormed = (constraints: fc.StringConstraints) => fc.string({ unit: 'binary', ...constraints });
/** Any UTF-16 text, lone surrogates included. */
const ragged = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 12 })
  .map((units) => String.fromCharCode(...units));
const text = fc.oneof(
  wellFormed({ maxLength: 60 }),
  ragged,
  fc.constantFrom(
    ...['', '"', '\\', '\u0000', '\u2028\u2029', '\u007f', '</script>', 'null}', '"registry_id":7}'],
    ...['😀é中', '\ufeff'],
  ),
);
const nullable = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { freq: 4 });
// entry.test.ts covers the year 9999: the oracle below compares dates as text.
const day = fc.integer({ min: Date.parse('0001-01-01') / DAY_MS, max: Date.parse('9998-12-31') / DAY_MS });
const dateOf = (days: number) => new Date(days * DAY_MS).toISOString().slice(0, 10);

/** Two dates near each other in either order, so that boundaries are frequent. */
const certification = fc.oneof(
  fc.record({ certified_from: nullable(day.map(dateOf)), certified_until: nullable(day.map(dateOf)) }),
  fc.tuple(fc.integer({ min: -4, max: 20_700 }), fc.integer({ min: -3, max: 3 })).map(([from, length]) => ({
    certified_from: dateOf(from),
    certified_until: dateOf(from + length),
  })),
);

const anyOf = (field: keyof HotelRow): fc.Arbitrary<unknown> => {
  const { type, minimum: min, maximum: max } = valueSchemaOf(Hotel.properties[field]);
  if (type === 'integer') return fc.integer({ min: min!, max: max! });
  return type === 'number' ? fc.double({ min: min!, max: max!, noNaN: true }) : text;
};

export const row = fc
  .record({
    ...Object.fromEntries(FIELDS_OF_ROW.map((field) => [field, nullable(anyOf(field))])),
    id: wellFormed({ minLength: 1, maxLength: 255 }),
    name: text,
    images: fc.array(fc.record({ url: text, caption: nullable(text) }, { requiredKeys: ['url'] }), {
      maxLength: 3,
    }),
    channel_id: nullable(wellFormed({ minLength: 1, maxLength: 255 })),
    registry_id: nullable(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String)),
  })
  .chain((rest) => certification.map((dates) => ({ ...rest, ...dates }))) as fc.Arbitrary<HotelRow>;

/** Times relevant to a row: around the boundaries of its certification, and anywhere. */
export const momentOf = ({ certified_from, certified_until }: HotelRow) => {
  const edges = [certified_from ?? '1970-01-01', certified_until ?? '1970-01-01'].flatMap((date) => [
    Date.parse(date),
    Date.parse(date) + DAY_MS,
  ]);
  const near = fc
    .tuple(fc.constantFrom(...edges), fc.constantFrom(-DAY_MS, -1, 0, 1, DAY_MS - 1))
    .map(([edge, by]) => edge + by);
  return fc.oneof(near, fc.integer({ min: 0, max: 2e12 }));
};
export const rowAtMoment = row.chain((one) => fc.tuple(fc.constant(one), momentOf(one)));
export const label = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });

/** Implements the contract independently of the code: it compares dates as text. */
function isCertified({ certified_from, certified_until }: HotelRow, nowMs: number): boolean {
  const today = new Date(nowMs).toISOString().slice(0, 10);
  return (
    certified_from !== null && certified_until !== null && certified_from <= today && today <= certified_until
  );
}

export function wireOf(one: HotelRow, nowMs: number, view: View): Record<string, unknown> {
  const { registry_id, latitude, longitude, images, ...same } = one;
  return {
    ...same,
    // JSON has no negative zero
    latitude: latitude === null ? null : latitude + 0,
    longitude: longitude === null ? null : longitude + 0,
    images: images.map(({ url, caption = null }) => ({ url, caption })),
    certified: isCertified(one, nowMs),
    certification_url: isCertified(one, nowMs) ? one.certification_url : null,
    registry_id: view === 'narrow' || registry_id === null ? null : Number(registry_id),
  };
}

export const jsonOf = (entry: Entry, view: View) => entry.body(view).toString();
