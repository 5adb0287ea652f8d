import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MacSecret } from '../lib/mac.ts';
import {
  type Changes,
  type FeedMessage,
  type HotelChange,
  type KeyChange,
  type MemberChange,
  type MessageId,
  NO_CHANGES,
  Numbering,
  payloadsOf,
} from './messages.ts';
import { MAC_CHARACTERS, readPayload, signed } from './payload.ts';

const SECRET = new MacSecret();
const LONGEST_PAYLOAD_BYTES = 7_999;

const LONGEST_GENERATION = Number.MAX_SAFE_INTEGER.toString(36);

/** Encodes messages like the invalidator, with the longest possible frame. */
function payloads(changes: Changes): string[] {
  const e = 'x'.repeat(8);
  const most = Number.MAX_SAFE_INTEGER;
  const numbers = { n: most, w: most, p: [e, most] satisfies MessageId };
  const frame = { e, o: most, b: `${e}:${most}`, l: true } as const;
  const numbering = { next: (count: number) => new Array(count).fill(numbers) };
  return payloadsOf(changes, frame, { before: LONGEST_GENERATION, after: LONGEST_GENERATION }, numbering);
}

const messagesOf = (changes: Changes, after = 'a'): FeedMessage[] => {
  const numbering = new Numbering('e', ['d', 7]);
  return payloadsOf(changes, { e: 'e', o: 3, b: null }, { before: 'a', after }, numbering).map((payload) =>
    JSON.parse(payload),
  );
};

/** Texts of the maximum length: 255 characters, of 1 to 6 bytes each in JSON. */
const id = fc.oneof(
  fc.string({ unit: 'binary', minLength: 1, maxLength: 255 }),
  fc.constantFrom('\u0001'.repeat(255), '"'.repeat(255), '😀'.repeat(255), '中'.repeat(255), 'a'.repeat(255)),
);
const version = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const hotel: fc.Arbitrary<HotelChange> = fc.tuple(
  id,
  version,
  fc.option(id),
  fc.option(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String)),
);
const key: fc.Arbitrary<KeyChange> = fc.tuple(fc.stringMatching(/^[0-9a-f]{64}$/), version);
const members: fc.Arbitrary<MemberChange> = fc.tuple(
  fc.option(id),
  fc.option(fc.array(id, { minLength: 1, maxLength: 100 })),
);
const changes = fc.record({
  hotels: fc.array(hotel, { maxLength: 120 }),
  keys: fc.array(key, { maxLength: 300 }),
  members: fc.uniqueArray(members, { maxLength: 5, selector: ([collection]) => collection }),
  truncated: fc.uniqueArray(fc.constantFrom<'hotels' | 'keys'>('hotels', 'keys')),
  movesPositions: fc.boolean(),
});

/** Joins the changes of each collection. */
function joined(announced: MemberChange[]): MemberChange[] {
  const byCollection = new Map<string | null, string[] | null>();
  for (const [collection, ids] of announced)
    byCollection.set(collection, ids && [...(byCollection.get(collection) ?? []), ...ids]);
  return [...byCollection];
}

describe('the messages of the invalidator', () => {
  it('fit into notifications with any ids, complete and in order', () => {
    fc.assert(
      fc.property(changes, (all) => {
        const announced = payloads(all);
        for (const json of announced) {
          expect(Buffer.byteLength(json) + MAC_CHARACTERS).toBeLessThanOrEqual(LONGEST_PAYLOAD_BYTES);
        }
        const messages = announced.map((json) => readPayload(signed(json, SECRET), SECRET)) as FeedMessage[];
        expect(messages.flatMap(({ h = [] }) => h)).toEqual(all.hotels);
        expect(messages.flatMap(({ k = [] }) => k)).toEqual(all.keys);
        expect(joined(messages.flatMap(({ c = [] }) => c))).toEqual(all.members);
        expect(messages.flatMap(({ t = [] }) => t)).toEqual(all.truncated);
        // each message is read alone, so all messages with inserted or deleted hotels must state that positions moved
        for (const { h, m } of messages) if (h) expect(m ?? false).toBe(all.movesPositions);
      }),
      { numRuns: 60 },
    );
  });

  it('are few for many changes', () => {
    const hotels = Array.from(
      { length: 4_000 },
      (_, i): HotelChange => [`hotel-${i}`, i, `CH-${i}`, String(i)],
    );
    expect(messagesOf({ ...NO_CHANGES, hotels }).length).toBeLessThan(30);
  });

  it('are a single heartbeat if there are no changes', () => {
    expect(messagesOf(NO_CHANGES)).toEqual([{ e: 'e', o: 3, n: 1, w: 1, p: ['d', 7], g: 'a', b: null }]);
  });

  it('announce that a table was truncated', () => {
    expect(messagesOf({ ...NO_CHANGES, truncated: ['hotels'], movesPositions: true })).toMatchObject([
      { t: ['hotels'] },
    ]);
  });

  it('are numbered, and the last one names the new generation', () => {
    const hotels = Array.from({ length: 500 }, (_, i): HotelChange => [`hotel-${i}`, i, `CH-${i}`, null]);
    const messages = messagesOf({ ...NO_CHANGES, hotels, truncated: ['keys'] }, 'b');
    expect(messages.map(({ n }) => n)).toEqual(messages.map((_, i) => i + 1));
    expect(messages.map(({ g }) => g)).toEqual(
      messages.map((_, i) => (i === messages.length - 1 ? 'b' : 'a')),
    );
  });
});
