import Type, { type Static } from 'typebox';
import type { FeedPosition } from '../postgres/replica.ts';

const Name = Type.String({ maxLength: 64 });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** of a removed hotel it ends in .5 */
const Version = Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Id = Type.String({ minLength: 1 });
const Digits = Type.String({ pattern: '^-?[0-9]{1,19}$' });

/** A message, by the name of its term and its number there. */
const Place = Type.Tuple([Name, Count]);
/** Id, version, channel id, registry id (of the present row; null where it has none). */
const HotelChange = Type.Tuple([
  Id,
  Version,
  Type.Union([Id, Type.Null()]),
  Type.Union([Digits, Type.Null()]),
]);
/** Sha256, version. */
const KeyChange = Type.Tuple([Type.String({ pattern: '^[0-9a-f]{64}$' }), Version]);

/**
 * A collection (null: any) and the ids of hotels that came in or went out (null: any hotel may have). What is so now must
 * be read from the tables.
 */
const MemberChange = Type.Tuple([Type.Union([Id, Type.Null()]), Type.Union([Type.Array(Id), Type.Null()])]);

export type Place = Static<typeof Place>;
export type HotelChange = Static<typeof HotelChange>;
export type KeyChange = Static<typeof KeyChange>;
export type MemberChange = Static<typeof MemberChange>;

/**
 * What the active invalidator tells every instance, as the payload of a PostgreSQL notification. Names are one
 * letter because a payload ends at 7,999 bytes. A later release may add some.
 */
export const FeedMessage = Type.Object({
  /** which term of which invalidator speaks */
  e: Name,
  /** which term of the history it is: a later one has a larger number */
  o: Count,
  /** counts the messages of a term from 1: a gap means that something was lost */
  n: Count,
  /** generation of the keys in Redis; empty: still that of before */
  g: Name,
  /** what the invalidator last wrote in Redis as a sign of life; null: it could not */
  b: Type.Union([Name, Type.Null()]),
  /** the last message of the term that told something: what `hotel_api_feed_position` holds from here on */
  w: Count,
  /** the last message before this one that told something, of whichever term */
  p: Place,
  /** hotels that changed or went */
  h: Type.Optional(Type.Array(HotelChange)),
  /** API keys that changed or went */
  k: Type.Optional(Type.Array(KeyChange)),
  /** collections that changed */
  c: Type.Optional(Type.Array(MemberChange)),
  /** tables that were truncated: anything may have changed */
  t: Type.Optional(Type.Array(Type.Union([Type.Literal('hotels'), Type.Literal('keys')]))),
  /** positions in the list have moved */
  m: Type.Optional(Type.Literal(true)),
  /** the last position in the change log */
  q: Type.Optional(Count),
  /** Redis was found to have lost writes: what was read there lately is doubtful */
  l: Type.Optional(Type.Literal(true)),
});
export type FeedMessage = Static<typeof FeedMessage>;

/** What a read must hold that begins after this message. */
export function announcedBy({ e, w }: FeedMessage): FeedPosition {
  return { term: e, count: w };
}

/** Changes of one drain of the queue. */
export interface Changes {
  hotels: HotelChange[];
  keys: KeyChange[];
  members: MemberChange[];
  truncated: ('hotels' | 'keys')[];
  movesPositions: boolean;
}

/** What a message says of its place among the others. */
export type Numbers = Pick<FeedMessage, 'n' | 'w' | 'p'>;

/** Numbers so many messages that are sent together; `tell`: there is something in each of them. */
export interface Numberer {
  next(count: number, announce: boolean): Numbers[];
}

/** What stands in every message of a delivery. */
export type Frame = Pick<FeedMessage, 'e' | 'o' | 'b' | 'q' | 'l'>;

/** Bytes of a payload that PostgreSQL takes, less what the frame of a message and its signature need. */
const ROOM_BYTES = 7_999 - 400;
/** Of the ids in one change of a collection; beside them stands the id of the collection. */
const MAX_PART_BYTES = ROOM_BYTES / 2;

/**
 * The messages in JSON that tell of changes, at least one, each small enough for a notification, as `numbering` numbers them. A
 * new generation is told by the last: until all changes are known nobody may fill it.
 */
export function payloadsOf(
  changes: Changes,
  frame: Frame,
  generations: { before: string; after: string },
  numbering: Numberer,
): string[] {
  const { movesPositions, truncated } = changes;
  const parts = [
    ...chunksOf('h', changes.hotels),
    ...chunksOf('k', changes.keys),
    ...chunksOf('c', changes.members.flatMap(divided)),
  ];
  if (truncated.length > 0) parts.push(`"t":${JSON.stringify(truncated)}`);
  const announces = parts.length > 0 || frame.l === true;
  if (parts.length === 0) parts.push('');
  const moves = movesPositions ? '"m":true' : '';
  return numbering.next(parts.length, announces).map((numbers, i) => {
    const g = i === parts.length - 1 ? generations.after : generations.before;
    const start = JSON.stringify({ ...frame, ...numbers, g }).slice(0, -1);
    const part = parts[i]!;
    return `${[start, part, part.startsWith('"h"') ? moves : ''].filter(Boolean).join(',')}}`;
  });
}

function* chunksOf(
  name: 'h' | 'k' | 'c',
  items: (HotelChange | KeyChange | MemberChange)[],
): Generator<string> {
  let chunk = '';
  let bytes = 0;
  for (const item of items) {
    const json = JSON.stringify(item);
    const size = Buffer.byteLength(json) + 1;
    if (bytes + size > ROOM_BYTES && bytes > 0) {
      yield `"${name}":[${chunk}]`;
      chunk = '';
      bytes = 0;
    }
    chunk += chunk === '' ? json : `,${json}`;
    bytes += size;
  }
  if (bytes > 0) yield `"${name}":[${chunk}]`;
}

/** A change of a collection in parts that each fit into a message beside others. */
function divided([collection, ids]: MemberChange): MemberChange[] {
  if (ids === null) return [[collection, null]];
  const parts: string[][] = [];
  let bytes = Infinity;
  for (const id of ids) {
    const size = Buffer.byteLength(JSON.stringify(id)) + 1;
    if (bytes + size > MAX_PART_BYTES) {
      parts.push([]);
      bytes = 0;
    }
    parts.at(-1)!.push(id);
    bytes += size;
  }
  return parts.map((part) => [collection, part]);
}
