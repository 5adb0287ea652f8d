import { randomBytes } from 'node:crypto';
import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { drawFrom } from '../cli/seed/draw.ts';
import { hotelAt } from '../cli/seed/hotel.ts';
import { forAll } from '../lib/for-all.fixture.ts';
import { gzip } from './compression.ts';

const PIECE = 128 * 1024;
const MIB = 1024 ** 2;

/** Bytes that repeat earlier bytes at any distance, runs, noise and text of few letters. */
const segment = fc.record({
  kind: fc.constantFrom('noise', 'run', 'letters', 'copy'),
  length: fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 40_000 })),
  letters: fc.integer({ min: 1, max: 80 }),
  distance: fc.integer({ min: 1, max: 70_000 }),
});
const body = fc.tuple(fc.array(segment, { maxLength: 30 }), fc.nat()).map(([segments, seed]) => {
  const below = drawFrom(seed, 0);
  const bytes: number[] = [];
  for (const { kind, length, letters, distance } of segments) {
    for (let i = 0; i < length; i++) {
      if (kind === 'run') bytes.push(letters);
      else if (kind === 'noise') bytes.push(below(256));
      else if (kind === 'letters') bytes.push(97 + below(letters));
      else bytes.push(bytes[Math.max(0, bytes.length - distance)] ?? 0);
    }
  }
  return Uint8Array.from(bytes);
});

/** Returns bytes of which each value is as frequent as the two rarer ones together, in an order without repetitions. */
function skewed(values: number): Buffer {
  const bytes: number[] = [];
  let [count, next] = [1, 1];
  for (let value = 0; value < values; value++) {
    for (let i = 0; i < count; i++) bytes.push(value);
    [count, next] = [next, count + next];
  }
  const below = drawFrom(1, values);
  for (let i = bytes.length - 1; i > 0; i--) {
    const other = below(i + 1);
    [bytes[i], bytes[other]] = [bytes[other]!, bytes[i]!];
  }
  return Buffer.from(bytes);
}

function expectReadable(bytes: Uint8Array): void {
  expect(gunzipSync(gzip(bytes)).equals(bytes), `${bytes.length} bytes`).toBe(true);
}

it('gzip is read by zlib, whatever the bytes', () => {
  forAll(body, expectReadable);
});

it('gzip is read at the limits of pieces, of the window and of matches', () => {
  const lengths = [0, 1, 7, 8, 9, 257, 258, 259, 16_383, 16_384, 32_768, PIECE, 2 * PIECE, MIB];
  for (const length of lengths) {
    for (const near of [length - 1, length, length + 1].filter((bytes) => bytes >= 0)) {
      expectReadable(Buffer.alloc(near));
      expectReadable(Buffer.alloc(near, 'hotel'));
      expectReadable(randomBytes(near));
    }
  }
  for (const distance of [32_767, 32_768, 32_769]) {
    const repeated = randomBytes(distance);
    expectReadable(Buffer.concat(new Array(9).fill(repeated)));
  }
});

it('gzip is read if the best codes are longer than the format allows', () => {
  for (let values = 1; values <= 24; values++) expectReadable(skewed(values));
});

it('gzip of hotels is about as small as that of zlib', () => {
  const hotels = Array.from({ length: 1_000 }, (_, i) => JSON.stringify(hotelAt(i, 1, '2026-06-01')));
  for (const count of [20, 100, 1_000]) {
    const batch = Buffer.from(`[${hotels.slice(0, count).join(',')}]`);
    expect(gzip(batch).length).toBeLessThan(1.01 * gzipSync(batch, { level: 1 }).length);
  }
  const lengthOf = (compress: (bytes: Buffer) => Buffer) =>
    hotels.reduce((sum, hotel) => sum + compress(Buffer.from(hotel)).length, 0);
  expect(lengthOf(gzip)).toBeLessThan(1.04 * lengthOf(gzipSync));
});

it('gzip is the same for the same bytes, whatever was compressed before, also after 4 GiB', {
  timeout: 60_000,
}, () => {
  const large = Buffer.alloc(64 * MIB);
  const bytes = skewed(18);
  const expected = gzip(bytes);
  for (let i = 0; i < 64; i++) {
    gzip(large);
    if (i === 0) gzip(randomBytes(MIB));
    expect(gzip(bytes)).toEqual(expected);
  }
  expectReadable(bytes);
});
