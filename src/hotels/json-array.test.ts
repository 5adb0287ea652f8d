import { expect, it } from 'vitest';
import { encodeHotel } from './encode.ts';
import { type Entry, VIEWS, type View } from './entry.ts';
import { type Body, EMPTY_ARRAY, LargeBody, PartialResponse } from './json-array.ts';
import { rowOf } from './row.fixture.ts';

const entryOf = (i: number, size: number) =>
  encodeHotel(rowOf({ id: `h${i}`, description: 'é'.repeat(size / 2), registry_id: String(i) }), 1, 0);

/** Reads a body as a client that takes some bytes at a time, so that pieces are read again from within. */
function textOf(body: Body, takes: number): string {
  if (body instanceof Uint8Array) return Buffer.from(body).toString();
  const all = Buffer.alloc(body.length);
  for (let at = 0; at < body.length; ) {
    const taken = body.bytesFrom(at).subarray(0, takes);
    all.set(taken, at);
    at += taken.length;
  }
  return all.toString();
}

const asJson = (entries: readonly Entry[], view: View) =>
  `[${entries.map((entry) => entry.body(view)).join(',')}]`;

it.each(VIEWS)('joins hotels in one piece or, if they are large, piece by piece (%s)', (view) => {
  for (const [count, size] of [
    [0, 0],
    [3, 100],
    [200, 50_000],
  ] as const) {
    const entries = Array.from({ length: count }, (_, i) => entryOf(i, i % 7 === 0 ? 60_000 : size));
    const body = new PartialResponse(EMPTY_ARRAY, [], new Array(count + 2).fill(1)).complete(
      [...entries, null, undefined],
      view,
    );
    expect(body instanceof LargeBody).toBe(count > 100);
    expect(textOf(body, 100_000) === asJson(entries, view)).toBe(true);
  }
});

it.each([
  ['at the beginning', (i: number) => i < 150],
  ['at the end', (i: number) => i >= 50],
  ['between', (i: number) => i % 5 > 0],
  ['everywhere', () => true],
])('fills gaps %s of an array with large hotels', (_, isFound) => {
  const entries = Array.from({ length: 200 }, (_, i) => entryOf(i, 60_000));
  let hits = '';
  const places: number[] = [];
  const found: Entry[] = [];
  for (const [i, entry] of entries.entries()) {
    if (isFound(i)) {
      found.push(entry);
      places.push(1 + Buffer.byteLength(hits));
    } else hits += `${entry.body('full')},`;
  }
  const array = Buffer.from(`[${hits.slice(0, -1)}]`);
  const keys = found.map(({ id }) => id);
  const body = new PartialResponse(array, keys, places).complete(found, 'full');
  expect(body).toBeInstanceOf(LargeBody);
  for (const takes of [1_000_000, 3_333]) expect(textOf(body, takes) === asJson(entries, 'full')).toBe(true);
});
