import fc from 'fast-check';
import { expect, it } from 'vitest';
import { forAll } from '../lib/for-all.fixture.ts';
import { encodeHotel } from './encode.ts';
import { jsonOf, label, row, rowAtMoment, SPECIFIED_FIELDS, wireOf } from './entry.fixture.ts';
import { VIEWS } from './entry.ts';
import { Hotel } from './hotel.ts';
import { rowOf } from './row.fixture.ts';
import type { HotelRow } from './row.ts';

it('the schema of a hotel has the fields of the specification in their order, others among them, each required', () => {
  const fields = Object.keys(Hotel.properties);
  expect(fields.filter((field) => SPECIFIED_FIELDS.includes(field))).toEqual(SPECIFIED_FIELDS);
  expect(Hotel.required).toEqual(fields);
});

it('a hotel has the JSON of the contract, the narrow view all but the registry id, and its keys and label beside it', () => {
  forAll(rowAtMoment, label, ([one, nowMs], readAt) => {
    const entry = encodeHotel(one, readAt, nowMs);
    for (const view of VIEWS) {
      expect(JSON.parse(jsonOf(entry, view))).toEqual(wireOf(one, nowMs, view));
      expect(entry.bodyLength(view)).toBe(entry.body(view).length);
    }
    // all digits of the registry id, which a number has not
    const narrow = jsonOf(entry, 'narrow');
    expect(narrow.endsWith(',"registry_id":null}')).toBe(true);
    expect(jsonOf(entry, 'full')).toBe(`${narrow.slice(0, -'null}'.length)}${one.registry_id ?? 'null'}}`);
    expect([entry.id, entry.label]).toEqual([one.id, readAt]);
    expect([entry.channelId, entry.registryId]).toEqual([one.channel_id, one.registry_id]);
  });
});

const changes = fc.constantFrom<(one: HotelRow, other: HotelRow) => HotelRow>(
  (one) => ({ ...one }),
  (one, other) => ({ ...one, registry_id: other.registry_id }),
  (one, other) => ({ ...one, name: other.name }),
  (one, other) => ({ ...one, channel_id: other.channel_id }),
  (one, other) => ({ ...one, certified_until: other.certified_until }),
  (one, other) => ({ ...one, certification_url: other.certification_url }),
  (_, other) => other,
);

it('tags of views differ exactly if their bytes differ', () => {
  forAll(rowAtMoment, row, changes, ([one, nowMs], other, change) => {
    // the label is no part of a view
    const [before, after] = [encodeHotel(one, 1, nowMs), encodeHotel(change(one, other), 2, nowMs)];
    for (const view of VIEWS)
      for (const otherView of VIEWS)
        expect(before.tag(view) === after.tag(otherView)).toBe(
          before.body(view).equals(after.body(otherView)),
        );
  });
});

it('a hotel is certified to the end of the year 9999', () => {
  const dates = { certified_from: '0001-01-01', certified_until: '9999-12-31' };
  const entry = encodeHotel(rowOf({ id: 'h', ...dates }), 1, Date.parse('9999-12-31T23:59:59.999Z'));
  expect(JSON.parse(jsonOf(entry, 'full')).certified).toBe(true);
});
