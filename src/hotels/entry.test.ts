import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeAbsence, encodeHotel, versionOfRemoved } from './encode.ts';
import { type Entry, readEntry, type View } from './entry.ts';
import { Hotel } from './hotel.ts';
import type { HotelRow } from './row.ts';

const DAY_MS = 86_400_000;
const VIEWS: View[] = ['full', 'narrow'];

/** The fields of the specification's table, in its order. */
const FIELDS = [
  'id',
  'name',
  'description',
  'address',
  'postal_code',
  'city',
  'country_code',
  'latitude',
  'longitude',
  'language',
  'star_rating',
  'room_count',
  'website_url',
  'email',
  'images',
  'certified',
  'certified_from',
  'certified_until',
  'certification_url',
  'channel_id',
  'registry_id',
];

it('the schema of a hotel has the fields of the specification, in their order, each required', () => {
  expect(Object.keys(Hotel.properties)).toEqual(FIELDS);
  expect(Hotel.required).toEqual(FIELDS);
});

const wellFormed = (constraints: fc.StringConstraints) => fc.string({ unit: 'binary', ...constraints });
/** Any UTF-16 at all, lone surrogates too. */
const ragged = fc
  .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 12 })
  .map((units) => String.fromCharCode(...units));
const text = fc.oneof(
  wellFormed({ maxLength: 60 }),
  ragged,
  fc.constantFrom(
    '',
    '"',
    '\\',
    '\u0000',
    '\u2028\u2029',
    '\u007f',
    '</script>',
    'null}',
    '"registry_id":7}',
    '😀é中',
    '\ufeff',
  ),
);
const nullable = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { freq: 4 });
// Year 9999 is left to the test of the boundaries: the oracle below compares dates as text.
const day = fc.integer({ min: Date.parse('0001-01-01') / DAY_MS, max: Date.parse('9998-12-31') / DAY_MS });
const dateOf = (days: number) => new Date(days * DAY_MS).toISOString().slice(0, 10);

/** Both dates near each other and in either order, so that the boundaries are met often. */
const certification = fc.oneof(
  fc.record({ certified_from: nullable(day.map(dateOf)), certified_until: nullable(day.map(dateOf)) }),
  fc.tuple(fc.integer({ min: -4, max: 20_700 }), fc.integer({ min: -3, max: 3 })).map(([from, length]) => ({
    certified_from: dateOf(from),
    certified_until: dateOf(from + length),
  })),
);

const row: fc.Arbitrary<HotelRow> = fc
  .record({
    id: wellFormed({ minLength: 1, maxLength: 255 }),
    name: text,
    description: nullable(text),
    address: nullable(text),
    postal_code: nullable(text),
    city: nullable(text),
    country_code: nullable(fc.constantFrom('DE', 'FR', 'IS')),
    latitude: nullable(fc.double({ min: -90, max: 90, noNaN: true })),
    longitude: nullable(fc.double({ min: -180, max: 180, noNaN: true })),
    language: nullable(fc.constantFrom('de', 'fr', 'is')),
    star_rating: nullable(fc.integer({ min: 0, max: 10 }).map((halves) => halves / 2)),
    room_count: nullable(fc.integer({ min: 0, max: 2 ** 31 - 1 })),
    website_url: nullable(text),
    email: nullable(text),
    images: fc.array(fc.record({ url: text, caption: nullable(text) }, { requiredKeys: ['url'] }), {
      maxLength: 3,
    }),
    certification_url: nullable(text),
    channel_id: nullable(wellFormed({ minLength: 1, maxLength: 255 })),
    registry_id: nullable(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String)),
    version: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  })
  .chain((rest) => certification.map((dates) => ({ ...rest, ...dates })));

/** Moments that matter to a row: around the boundaries of its certification, and anywhere. */
const momentOf = ({ certified_from, certified_until }: HotelRow) => {
  const edges = [certified_from ?? '1970-01-01', certified_until ?? '1970-01-01'].flatMap((date) => [
    Date.parse(date),
    Date.parse(date) + DAY_MS,
  ]);
  const near = fc
    .tuple(fc.constantFrom(...edges), fc.constantFrom(-DAY_MS, -1, 0, 1, DAY_MS - 1))
    .map(([edge, by]) => edge + by);
  return fc.oneof(near, fc.integer({ min: 0, max: 2e12 }));
};
const rowAtMoment = row.chain((one) => fc.tuple(fc.constant(one), momentOf(one)));

/** Says what the contract says, and shares no line with the code: dates are compared as text. */
function isCertified({ certified_from, certified_until }: HotelRow, nowMs: number): boolean {
  const today = new Date(nowMs).toISOString().slice(0, 10);
  return (
    certified_from !== null && certified_until !== null && certified_from <= today && today <= certified_until
  );
}

function wireOf(one: HotelRow, nowMs: number, view: View): Record<string, unknown> {
  const { version: _, registry_id, latitude, longitude, images, ...same } = one;
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

const jsonOf = (entry: Entry, view: View) => entry.body(view).toString();

describe('a hotel', () => {
  it('reads back from its JSON as the contract shows it, in both views', () => {
    fc.assert(
      fc.property(rowAtMoment, ([one, nowMs]) => {
        const entry = encodeHotel(one, nowMs);
        for (const view of VIEWS) expect(JSON.parse(jsonOf(entry, view))).toEqual(wireOf(one, nowMs, view));
      }),
    );
  });

  it("has the specification's 21 fields in their order", () => {
    fc.assert(
      fc.property(rowAtMoment, ([one, nowMs]) => {
        for (const view of VIEWS) {
          const wire = JSON.parse(jsonOf(encodeHotel(one, nowMs), view));
          expect(Object.keys(wire)).toEqual(FIELDS);
          for (const image of wire.images) expect(Object.keys(image)).toEqual(['url', 'caption']);
        }
      }),
    );
  });

  it('is the same in both views but for registry_id, which the full view shows digit for digit', () => {
    fc.assert(
      fc.property(rowAtMoment, ([one, nowMs]) => {
        const entry = encodeHotel(one, nowMs);
        const [full, narrow] = [jsonOf(entry, 'full'), jsonOf(entry, 'narrow')];
        expect(narrow.endsWith(',"registry_id":null}')).toBe(true);
        expect(full).toBe(`${narrow.slice(0, -'null}'.length)}${one.registry_id ?? 'null'}}`);
      }),
    );
  });

  it('keeps its keys, its version and the length of its views beside the JSON', () => {
    fc.assert(
      fc.property(rowAtMoment, ([one, nowMs]) => {
        const entry = encodeHotel(one, nowMs);
        expect(entry.present).toBe(true);
        expect(entry.id).toBe(one.id);
        expect(entry.channelId).toBe(one.channel_id);
        expect(entry.registryId).toBe(one.registry_id);
        expect(entry.version).toBe(one.version);
        for (const view of VIEWS) expect(entry.bodyLength(view)).toBe(entry.body(view).length);
      }),
    );
  });

  it('is copied where it is asked for, and nothing beside it is touched', () => {
    fc.assert(
      fc.property(rowAtMoment, fc.nat(40), fc.constantFrom(...VIEWS), ([one, nowMs], offset, view) => {
        const entry = encodeHotel(one, nowMs);
        const target = Buffer.alloc(offset + entry.bodyLength(view) + 5, 0xaa);
        const end = entry.copyBody(view, target, offset);
        expect(end).toBe(offset + entry.bodyLength(view));
        expect(target.subarray(offset, end).equals(entry.body(view))).toBe(true);
        const beside = Buffer.concat([target.subarray(0, offset), target.subarray(end)]);
        expect(beside.equals(Buffer.alloc(offset + 5, 0xaa))).toBe(true);
      }),
    );
  });
});

describe('the tag of a view', () => {
  const changes = fc.constantFrom<(one: HotelRow, other: HotelRow) => HotelRow>(
    (one) => ({ ...one }),
    (one) => ({ ...one, version: one.version + 1 }),
    (one, other) => ({ ...one, registry_id: other.registry_id }),
    (one, other) => ({ ...one, name: other.name }),
    (one, other) => ({ ...one, channel_id: other.channel_id }),
    (one, other) => ({ ...one, certified_until: other.certified_until }),
    (one, other) => ({ ...one, certification_url: other.certification_url }),
    (_, other) => other,
  );

  it('differs exactly where the bytes of the view differ', () => {
    fc.assert(
      fc.property(rowAtMoment, row, changes, ([one, nowMs], other, change) => {
        const [before, after] = [encodeHotel(one, nowMs), encodeHotel(change(one, other), nowMs)];
        for (const view of VIEWS) {
          expect(before.tag(view) === after.tag(view)).toBe(before.body(view).equals(after.body(view)));
        }
      }),
    );
  });

  it('differs between the views exactly where the hotel has a registry id', () => {
    fc.assert(
      fc.property(rowAtMoment, ([one, nowMs]) => {
        const entry = encodeHotel(one, nowMs);
        expect(entry.tag('full') === entry.tag('narrow')).toBe(one.registry_id === null);
      }),
    );
  });

  it('is made of characters that may stand in an ETag', () => {
    fc.assert(
      fc.property(rowAtMoment, ([one, nowMs]) => {
        for (const view of VIEWS) expect(encodeHotel(one, nowMs).tag(view)).toMatch(/^[A-Za-z0-9_-]{12}$/);
      }),
    );
  });
});

describe('certified', () => {
  const dated = (certified_from: string | null, certified_until: string | null): HotelRow => ({
    ...bare,
    certified_from,
    certified_until,
    certification_url: 'https://badge.example/1',
  });
  const bare: HotelRow = {
    id: 'h',
    name: 'H',
    description: null,
    address: null,
    postal_code: null,
    city: null,
    country_code: null,
    latitude: null,
    longitude: null,
    language: null,
    star_rating: null,
    room_count: null,
    website_url: null,
    email: null,
    images: [],
    certified_from: null,
    certified_until: null,
    certification_url: null,
    channel_id: null,
    registry_id: null,
    version: 1,
  };
  const certified = (one: HotelRow, moment: string) =>
    JSON.parse(jsonOf(encodeHotel(one, Date.parse(moment)), 'full')).certified;

  it.each([
    ['2026-02-01', '2026-02-28', '2026-01-31T23:59:59.999Z', false],
    ['2026-02-01', '2026-02-28', '2026-02-01T00:00:00.000Z', true],
    ['2026-02-01', '2026-02-28', '2026-02-28T23:59:59.999Z', true],
    ['2026-02-01', '2026-02-28', '2026-03-01T00:00:00.000Z', false],
    ['2026-02-10', '2026-02-10', '2026-02-10T12:00:00.000Z', true],
    ['2026-02-11', '2026-02-10', '2026-02-10T12:00:00.000Z', false],
    ['2026-02-11', '2026-02-10', '2026-02-11T12:00:00.000Z', false],
    [null, '2026-02-28', '2026-02-10T12:00:00.000Z', false],
    ['2026-02-01', null, '2026-02-10T12:00:00.000Z', false],
    [null, null, '2026-02-10T12:00:00.000Z', false],
    ['0001-01-01', '9999-12-31', '2026-02-10T12:00:00.000Z', true],
    ['0001-01-01', '9999-12-31', '9999-12-31T23:59:59.999Z', true],
    ['1969-12-31', '1969-12-31', '1969-12-31T12:00:00.000Z', true],
    ['1970-01-01', '1970-01-01', '1970-01-01T00:00:00.000Z', true],
  ])('from %s until %s is, on %s, %s', (from, until, moment, expected) => {
    expect(certified(dated(from, until), moment)).toBe(expected);
  });

  it('is true until turnsAtMs and not beyond it', () => {
    fc.assert(
      fc.property(rowAtMoment, fc.nat(3 * DAY_MS), ([one, nowMs], laterMs) => {
        const { turnsAtMs } = encodeHotel(one, nowMs);
        expect(turnsAtMs).toBeGreaterThan(nowMs);
        const shown = isCertified(one, nowMs);
        if (turnsAtMs < Infinity) {
          expect(isCertified(one, turnsAtMs - 1)).toBe(shown);
          expect(isCertified(one, turnsAtMs)).toBe(!shown);
        }
        if (nowMs + laterMs < turnsAtMs) expect(isCertified(one, nowMs + laterMs)).toBe(shown);
      }),
    );
  });

  it('is turned to any other moment as if the hotel had been encoded then', () => {
    const twoMoments = row.chain((one) => fc.tuple(fc.constant(one), momentOf(one), momentOf(one)));
    fc.assert(
      fc.property(twoMoments, ([one, firstMs, thenMs]) => {
        const turned = encodeHotel(one, firstMs).at(thenMs);
        const encodedThen = encodeHotel(one, thenMs);
        for (const view of VIEWS) {
          expect(jsonOf(turned, view)).toBe(jsonOf(encodedThen, view));
          expect(turned.tag(view)).toBe(encodedThen.tag(view));
        }
        expect(turned.turnsAtMs).toBe(encodedThen.turnsAtMs);
        expect(turned.bytes.equals(encodedThen.bytes)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  it('costs no copy while nothing turns', () => {
    fc.assert(
      fc.property(rowAtMoment, ([one, nowMs]) => {
        const entry = encodeHotel(one, nowMs);
        expect(entry.at(nowMs)).toBe(entry);
        if (entry.turnsAtMs < Infinity) expect(entry.at(entry.turnsAtMs - 1)).toBe(entry);
      }),
    );
  });
});

describe('what a cache held', () => {
  it('is read as it was written', () => {
    fc.assert(
      fc.property(rowAtMoment, ([one, nowMs]) => {
        const entry = encodeHotel(one, nowMs);
        const read = readEntry(Buffer.from(entry.bytes));
        expect(read?.bytes.equals(entry.bytes)).toBe(true);
        expect(read?.id).toBe(one.id);
      }),
    );
  });

  it('is refused when any one byte is another', () => {
    fc.assert(
      fc.property(rowAtMoment, fc.nat(), fc.integer({ min: 1, max: 255 }), ([one, nowMs], place, mask) => {
        const damaged = Buffer.from(encodeHotel(one, nowMs).bytes);
        const at = place % damaged.length;
        damaged[at] = damaged[at]! ^ mask;
        expect(readEntry(damaged)).toBeUndefined();
      }),
    );
  });

  it('is refused when it is cut short, longer than it was, empty or foreign', () => {
    fc.assert(
      fc.property(
        rowAtMoment,
        fc.nat(),
        fc.uint8Array({ minLength: 1, maxLength: 9 }),
        ([one, nowMs], place, more) => {
          const { bytes } = encodeHotel(one, nowMs);
          expect(readEntry(bytes.subarray(0, place % bytes.length))).toBeUndefined();
          expect(readEntry(Buffer.concat([bytes, more]))).toBeUndefined();
        },
      ),
    );
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => readEntry(Buffer.from(bytes)) === undefined),
    );
    expect(readEntry(Buffer.alloc(0))).toBeUndefined();
    expect(readEntry(Buffer.alloc(80))).toBeUndefined();
  });
});

describe('an absence', () => {
  const absence = fc.tuple(
    wellFormed({ maxLength: 255 }),
    fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  );

  it('says whose it is and since which version, and is never turned', () => {
    fc.assert(
      fc.property(absence, fc.integer(), ([id, version], nowMs) => {
        const entry = encodeAbsence(id, version);
        const { present, channelId, registryId, turnsAtMs } = entry;
        expect({ present, channelId, registryId, turnsAtMs }).toEqual({
          present: false,
          channelId: null,
          registryId: null,
          turnsAtMs: Infinity,
        });
        expect([entry.id, entry.version]).toEqual([id, version]);
        expect(entry.at(nowMs)).toBe(entry);
      }),
    );
  });

  it('is read as it was written, and refused when a byte is another', () => {
    fc.assert(
      fc.property(absence, fc.nat(), fc.integer({ min: 1, max: 255 }), ([id, version], place, mask) => {
        const { bytes } = encodeAbsence(id, version);
        expect(readEntry(Buffer.from(bytes))?.bytes.equals(bytes)).toBe(true);
        const damaged = Buffer.from(bytes);
        damaged[place % damaged.length]! ^= mask;
        expect(readEntry(damaged)).toBeUndefined();
      }),
    );
  });

  it('of a removed hotel is newer than its last version and older than every later one', () => {
    // versions in use are far below 2^52, where half a step can still be told
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 52 - 1 }), (version) => {
        expect(versionOfRemoved(version)).toBeGreaterThan(version);
        expect(versionOfRemoved(version)).toBeLessThan(version + 1);
      }),
    );
  });
});
