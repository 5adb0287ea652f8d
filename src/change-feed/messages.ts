import { isCount, isText } from '../lib/checks.ts';
import type { FeedPosition } from '../postgres/replica.ts';

const MAX_NAME_LENGTH = 64;
const HASH = /^[0-9a-f]{64}$/;
const DIGITS = /^-?[0-9]{1,19}$/;

/** Identity of a message: the name of its term and its number there. */
export type MessageId = [term: string, n: number];
/**
 * Id, version (that of a deleted hotel ends in .5), channel id, registry id (of the present row; null if it has none).
 */
export type HotelChange = [id: string, version: number, channelId: string | null, registryId: string | null];
/** Sha256 in hexadecimal digits, version. */
export type KeyChange = [sha256: string, version: number];
/**
 * A collection (null: any) and the ids of added or removed hotels (null: any hotel may be affected). The tables hold
 * the present members.
 */
export type MemberChange = [collection: string | null, hotels: string[] | null];

/**
 * Message of the active invalidator to every instance, the payload of a PostgreSQL notification. Names have one
 * letter because a payload ends at 7,999 bytes. Later releases may add fields.
 */
export interface FeedMessage {
  /** name of the term */
  e: string;
  /** number of the term in the history: later terms have larger numbers */
  o: number;
  /** number of the message in its term, from 1: a gap means a loss */
  n: number;
  /** generation of the keys in Redis; empty: unchanged */
  g: string;
  /** the invalidator's last write marker in Redis; null: it could not be written */
  b: string | null;
  /** the last message of the term that announced changes: the content of `hotel_api_feed_position` from here on */
  w: number;
  /** the last message before this one that announced changes, of any term */
  p: MessageId;
  /** changed or deleted hotels */
  h?: HotelChange[];
  /** changed or deleted API keys */
  k?: KeyChange[];
  /** changed collections */
  c?: MemberChange[];
  /** truncated tables: anything may have changed */
  t?: ('hotels' | 'keys')[];
  /** positions in the list have moved */
  m?: true;
  /** last position in the change log */
  q?: number;
  /** Redis has lost writes: recent reads from it are suspect */
  l?: true;
}

type Check = (value: unknown) => boolean;

const isName: Check = (value) => isText(value, MAX_NAME_LENGTH);
const isId: Check = (value) => typeof value === 'string' && value !== '';
const isVersion: Check = (value) =>
  typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
const isTrue: Check = (value) => value === true;
const matches =
  (pattern: RegExp): Check =>
  (value) =>
    typeof value === 'string' && pattern.test(value);
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value);
const tuple =
  (...checks: Check[]): Check =>
  (value) =>
    Array.isArray(value) && value.length === checks.length && checks.every((check, i) => check(value[i]));
const array =
  (check: Check): Check =>
  (value) =>
    Array.isArray(value) && value.every(check);

const REQUIRED: Record<string, Check> = {
  e: isName,
  o: isCount,
  n: isCount,
  g: isName,
  b: orNull(isName),
  w: isCount,
  p: tuple(isName, isCount),
};
const OPTIONAL: Record<string, Check> = {
  h: array(tuple(isId, isVersion, orNull(isId), orNull(matches(DIGITS)))),
  k: array(tuple(matches(HASH), isVersion)),
  c: array(tuple(orNull(isId), orNull(array(isId)))),
  t: array((value) => value === 'hotels' || value === 'keys'),
  m: isTrue,
  q: isCount,
  l: isTrue,
};

/** Returns true for a message of this or a later release. */
export function isFeedMessage(value: unknown): value is FeedMessage {
  if (typeof value !== 'object' || value === null) return false;
  const fields = value as Record<string, unknown>;
  return (
    Object.entries(REQUIRED).every(([name, check]) => check(fields[name])) &&
    Object.entries(OPTIONAL).every(([name, check]) => fields[name] === undefined || check(fields[name]))
  );
}

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

export const NO_CHANGES: Changes = {
  hotels: [],
  keys: [],
  members: [],
  truncated: [],
  movesPositions: false,
};

/** Numbers the messages of a term, so that a receiver that missed some knows whether they announced changes. */
export class Numbering {
  readonly #term: string;
  /** the last message that announced changes, of this term or an earlier one */
  #last: MessageId;
  /** number of the last message; 0 before the first */
  n = 0;
  /** the next content of `hotel_api_feed_position` */
  announcedCount = 0;

  /** `before`: the content of `hotel_api_feed_position` when the term begins. */
  constructor(term: string, before: MessageId) {
    this.#term = term;
    this.#last = before;
  }

  /** Numbers messages that are sent together; `announce`: each of them announces changes. */
  next(count: number, announce: boolean): Pick<FeedMessage, 'n' | 'w' | 'p'>[] {
    // the first message of a term covers all announcements before it
    if (announce || this.n === 0) this.announcedCount = this.n + count;
    return Array.from({ length: count }, () => {
      const numbers = { n: ++this.n, w: this.announcedCount, p: this.#last };
      if (announce) this.#last = [this.#term, this.n];
      return numbers;
    });
  }
}

/** Fields of every message of a delivery. */
type Frame = Pick<FeedMessage, 'e' | 'o' | 'b' | 'q' | 'l'>;

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
  numbering: Pick<Numbering, 'next'>,
): string[] {
  const { movesPositions, truncated } = changes;
  const members = changes.members.flatMap(([collection, ids]): MemberChange[] =>
    ids === null ? [[collection, null]] : grouped(ids, MAX_PART_BYTES).map((part) => [collection, part]),
  );
  const fields = { h: changes.hotels, k: changes.keys, c: members };
  const parts = Object.entries(fields).flatMap(([name, items]) =>
    grouped<unknown>(items, ROOM_BYTES).map((group) => `"${name}":${JSON.stringify(group)}`),
  );
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

/** Divides items into groups of at most this many bytes of JSON. A larger item is a group of its own. */
function grouped<Item>(items: readonly Item[], maxBytes: number): Item[][] {
  const groups: Item[][] = [];
  let bytes = Infinity;
  for (const item of items) {
    const size = Buffer.byteLength(JSON.stringify(item)) + 1;
    if (bytes + size > maxBytes) {
      groups.push([]);
      bytes = 0;
    }
    groups.at(-1)!.push(item);
    bytes += size;
  }
  return groups;
}
