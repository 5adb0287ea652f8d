/**
 * What the active invalidator tells every instance, as the payload of a PostgreSQL notification. Names are one
 * letter because a payload ends at 7,999 bytes.
 */
export interface FeedMessage {
  /** which term of which invalidator speaks */
  e: string;
  /** counts the messages of a term from 1: a gap means that something was lost */
  n: number;
  /** generation of the keys in Redis */
  g: string;
  /** what the invalidator last wrote in Redis as a sign of life; null: it could not */
  b: string | null;
  /** hotels that changed or went: id, version, channel id, registry id (of the present row; null where it has none) */
  h?: HotelChange[];
  /** API keys that changed or went: sha256, version */
  k?: KeyChange[];
  /** tables that were truncated: anything may have changed */
  t?: ('hotels' | 'keys')[];
  /** positions in the list have moved */
  m?: true;
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

/** Bytes of a payload that PostgreSQL takes, less what the frame of a message needs. */
const ROOM_BYTES = 7_999 - 400;

/** Parts of messages, each small enough for one notification; one part without changes where there are none. */
export function split(changes: Changes): Pick<FeedMessage, 'h' | 'k' | 't' | 'm'>[] {
  const parts: Pick<FeedMessage, 'h' | 'k' | 't' | 'm'>[] = [];
  const common = changes.movesPositions ? { m: true as const } : {};
  for (const part of chunksOf(changes.hotels)) parts.push({ ...common, h: part });
  for (const part of chunksOf(changes.keys)) parts.push({ k: part });
  if (changes.truncated.length > 0 || parts.length === 0) {
    parts.push(changes.truncated.length > 0 ? { ...common, t: changes.truncated } : {});
  }
  return parts;
}

function* chunksOf<Item>(items: Item[]): Generator<Item[]> {
  let chunk: Item[] = [];
  let bytes = 0;
  for (const item of items) {
    const size = Buffer.byteLength(JSON.stringify(item)) + 1;
    if (bytes + size > ROOM_BYTES && chunk.length > 0) {
      yield chunk;
      chunk = [];
      bytes = 0;
    }
    chunk.push(item);
    bytes += size;
  }
  if (chunk.length > 0) yield chunk;
}
