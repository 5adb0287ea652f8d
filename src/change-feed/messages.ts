import Type, { type Static } from 'typebox';
import type { FeedPosition } from '../postgres/replica.ts';

const Name = Type.String({ maxLength: 64 });
const Count = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
/** version; that of a deleted hotel ends in .5 */
const Version = Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
const Id = Type.String({ minLength: 1 });
const Digits = Type.String({ pattern: '^-?[0-9]{1,19}$' });

/** Identity of a message: the name of its term and its number there. */
const Place = Type.Tuple([Name, Count]);
/** Id, version, channel id, registry id (of the present row; null if it has none). */
const HotelChange = Type.Tuple([
  Id,
  Version,
  Type.Union([Id, Type.Null()]),
  Type.Union([Digits, Type.Null()]),
]);
/** Sha256, version. */
const KeyChange = Type.Tuple([Type.String({ pattern: '^[0-9a-f]{64}$' }), Version]);

/**
 * A collection (null: any) and the ids of added or removed hotels (null: any hotel may be affected). The tables hold
 * the present members.
 */
const MemberChange = Type.Tuple([Type.Union([Id, Type.Null()]), Type.Union([Type.Array(Id), Type.Null()])]);

export type Place = Static<typeof Place>;
export type HotelChange = Static<typeof HotelChange>;
export type KeyChange = Static<typeof KeyChange>;
export type MemberChange = Static<typeof MemberChange>;

/**
 * Message of the active invalidator to every instance, the payload of a PostgreSQL notification. Names have one
 * letter because a payload ends at 7,999 bytes. Later releases may add fields.
 */
export const FeedMessage = Type.Object({
  /** name of the term */
  e: Name,
  /** number of the term in the history: later terms have larger numbers */
  o: Count,
  /** number of the message in its term, from 1: a gap means a loss */
  n: Count,
  /** generation of the keys in Redis; empty: unchanged */
  g: Name,
  /** the invalidator's last write marker in Redis; null: it could not be written */
  b: Type.Union([Name, Type.Null()]),
  /** the last message of the term that announced changes: the content of `hotel_api_feed_position` from here on */
  w: Count,
  /** the last message before this one that announced changes, of any term */
  p: Place,
  /** changed or deleted hotels */
  h: Type.Optional(Type.Array(HotelChange)),
  /** changed or deleted API keys */
  k: Type.Optional(Type.Array(KeyChange)),
  /** changed collections */
  c: Type.Optional(Type.Array(MemberChange)),
  /** truncated tables: anything may have changed */
  t: Type.Optional(Type.Array(Type.Union([Type.Literal('hotels'), Type.Literal('keys')]))),
  /** positions in the list have moved */
  m: Type.Optional(Type.Literal(true)),
  /** last position in the change log */
  q: Type.Optional(Count),
  /** Redis has lost writes: recent reads from it are suspect */
  l: Type.Optional(Type.Literal(true)),
});
export type FeedMessage = Static<typeof FeedMessage>;

/** Position that a read beginning after this message must reach. */
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

/** Position of a message among the others. */
export type Numbers = Pick<FeedMessage, 'n' | 'w' | 'p'>;

/** Numbers messages that are sent together; `announce`: each of them announces changes. */
export interface Numberer {
  next(count: number, announce: boolean): Numbers[];
}

/** Fields of every message of a delivery. */
export type Frame = Pick<FeedMessage, 'e' | 'o' | 'b' | 'q' | 'l'>;

/** Bytes of a payload that PostgreSQL accepts, minus those of the frame and the signature. */
const ROOM_BYTES = 7_999 - 400;
/** Bytes of ids in one change of a collection; the id of the collection is extra. */
const MAX_PART_BYTES = ROOM_BYTES / 2;

/**
 * Encodes changes as one or more messages in JSON, each small enough for a notification, numbered by `numbering`. A
 * new generation is announced by the last message: it must not be filled before all changes are known.
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

/** Splits a change of a collection into parts that each fit into a message. */
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
