import type { Told } from '../stores/replica.ts';

/**
 * What the active invalidator tells every instance, as the payload of a PostgreSQL notification. Names are one
 * letter because a payload ends at 7,999 bytes.
 */
export interface FeedMessage {
  /** which term of which invalidator speaks */
  e: string;
  /** counts the messages of a term from 1: a gap means that something was lost */
  n: number;
  /** generation of the keys in Redis; empty: still that of before */
  g: string;
  /** what the invalidator last wrote in Redis as a sign of life; null: it could not */
  b: string | null;
  /** the last message of the term that told something: what `hotel_api_told` holds from here on; missing from older releases */
  w?: number;
  /** the last message before this one that told something, of whichever term; missing from older releases */
  p?: Place;
  /** hotels that changed or went: id, version, channel id, registry id (of the present row; null where it has none) */
  h?: HotelChange[];
  /** API keys that changed or went: sha256, version */
  k?: KeyChange[];
  /** tables that were truncated: anything may have changed */
  t?: ('hotels' | 'keys')[];
  /** positions in the list have moved */
  m?: true;
  /** Redis was found to have lost writes: what was read there lately is doubtful */
  l?: true;
}

/** A message, by the name of its term and its number there. */
export type Place = [term: string, n: number];

/** What a read must hold that begins after this message; undefined where it does not say, being of an older release. */
export function toldBy({ e, w }: FeedMessage): Told | undefined {
  return w === undefined ? undefined : { term: e, count: w };
}

export type HotelChange = [id: string, version: number, channelId: string | null, registryId: string | null];
export type KeyChange = [sha256: string, version: number];

/** Changes of one drain of the queue. */
export interface Changes {
  hotels: HotelChange[];
  keys: KeyChange[];
  truncated: ('hotels' | 'keys')[];
  movesPositions: boolean;
}

/** What a message says of its place among the others. */
export type Numbers = Pick<FeedMessage, 'n' | 'w' | 'p'>;

/** Numbers so many messages that are sent together; `tell`: there is something in each of them. */
export interface Counter {
  next(count: number, tell: boolean): Numbers[];
}

/** What stands in every message of a delivery. */
export type Frame = Pick<FeedMessage, 'e' | 'b' | 'l'>;

/** Bytes of a payload that PostgreSQL takes, less what the frame of a message needs. */
const ROOM_BYTES = 7_999 - 400;

/**
 * The payloads that tell of changes, at least one, each small enough for a notification, as `numbering` numbers them. A
 * new generation is told by the last: until all changes are known nobody may fill it.
 */
export function payloadsOf(
  changes: Changes,
  frame: Frame,
  generations: { before: string; after: string },
  numbering: Counter,
): string[] {
  const { movesPositions, truncated } = changes;
  const parts = [...chunksOf('h', changes.hotels), ...chunksOf('k', changes.keys)];
  if (truncated.length > 0) parts.push(`"t":${JSON.stringify(truncated)}`);
  const tells = parts.length > 0 || frame.l === true;
  if (parts.length === 0) parts.push('');
  const moves = movesPositions ? '"m":true' : '';
  return numbering.next(parts.length, tells).map((numbers, i) => {
    const g = i === parts.length - 1 ? generations.after : generations.before;
    const start = JSON.stringify({ ...frame, ...numbers, g }).slice(0, -1);
    const part = parts[i]!;
    return `${[start, part, part.startsWith('"h"') ? moves : ''].filter(Boolean).join(',')}}`;
  });
}

function* chunksOf(name: 'h' | 'k', items: (HotelChange | KeyChange)[]): Generator<string> {
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
