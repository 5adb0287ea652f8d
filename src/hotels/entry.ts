import { hash } from 'node:crypto';
import { checksum } from './checksum.ts';
import type { Hotel } from './hotel.ts';
import type { Namespace } from './namespace.ts';

/**
 * An entry is a hotel as the caches hold it: the final JSON of the response, encoded once, behind a fixed
 * header. The same bytes stand in Redis and in the local cache. An entry may also say that a hotel is absent.
 *
 * Layout, little endian:
 *
 *     0  u32  lower half of the XXH64 of bytes 4 to the end
 *     4  u32  magic
 *     8  f64  version: of the database's sequence; half a step more for what was deleted
 *    16  f64  the moment at which `certified` flips, epoch ms; Infinity when it never does
 *    24  12 characters  tag of the narrow view (for ETag), 36  12 characters  tag of the full view
 *    48  i32  certified_from, 52  i32  certified_until: days since 1970-01-01, NO_DAY for null
 *    56  u32  body length, 60  u32  shared length: the part of the body that both views have
 *    64  u32  where the certification fields begin in the body, 68  u16  how long they are
 *    70  u16  id length, 72  u16  channel id length, 74  u16  certification URL length (as JSON, 0 for null)
 *    76  u8   registry id length (decimal digits, 0 for null), 77  u8  flags, 78  u16  zero
 *    80  id, channel id, registry id, certification URL, body
 *
 * `registry_id` is the body's last field, so the view of a key without the scope is the shared part
 * and `null}`. The certification URL and both dates are kept apart from the body so that an entry can
 * be turned to another day without asking the database.
 */
const MAGIC = 0x32444548;
const HEADER_BYTES = 80;
const NO_DAY = -0x80000000;
const PRESENT = 1;
const WITHDRAWN = 2;
const DAY_MS = 86_400_000;

/** What ends the narrow view, after the shared part. */
export const NARROW_END = Buffer.from('null}');

/** Which view of a hotel a key may see: `narrow` shows `registry_id` as null. */
export type View = 'full' | 'narrow';

/** A row of `hotels` as `HOTEL_COLUMNS` selects it. */
export type HotelRow = Omit<Hotel, 'certified' | 'images' | 'registry_id'> & {
  images: { url: string; caption?: string | null }[];
  /** decimal digits: a bigint may be larger than a number holds */
  registry_id: string | null;
  version: number;
};

/** The select list that yields a `HotelRow`. */
export const HOTEL_COLUMNS = `id, name, description, address, postal_code, city, country_code, latitude, longitude,
  language, star_rating::float8, room_count, website_url, email, images,
  to_char(certified_from, 'YYYY-MM-DD') as certified_from, to_char(certified_until, 'YYYY-MM-DD') as certified_until,
  certification_url, channel_id, registry_id::text, version::float8`;

/** A hotel, or null: none carries the key. */
export type Found = Entry | null;

/** Letters that one byte holds in UTF-8. */
const LAST_ASCII = 0x7f;

/** A checked entry: a window on bytes that nobody may change. */
export class Entry {
  readonly #source: Buffer;
  readonly #start: number;
  readonly #end: number;

  /** Takes the bytes of an entry that is known to be sound; `readEntry` is the door for others. */
  constructor(source: Buffer, start = 0, end = source.length) {
    this.#source = source;
    this.#start = start;
    this.#end = end;
  }

  /** The entry as caches hold it. */
  get bytes(): Buffer {
    return this.#source.subarray(this.#start, this.#end);
  }

  /** False for an entry that says the hotel is absent. */
  get present(): boolean {
    return (this.#source[this.#start + 77]! & PRESENT) !== 0;
  }

  /** True for what takes a hotel's place in Redis after a change until somebody reads the hotel anew. */
  get withdrawn(): boolean {
    return (this.#source[this.#start + 77]! & WITHDRAWN) !== 0;
  }

  get version(): number {
    return this.#source.readDoubleLE(this.#start + 8);
  }

  /** The moment (epoch ms) from which `certified` in the body is no longer true. */
  get turnsAtMs(): number {
    return this.#source.readDoubleLE(this.#start + 16);
  }

  get id(): string {
    return this.#key('id') ?? '';
  }

  get channelId(): string | null {
    return this.#key('channel');
  }

  /** Decimal digits, canonical. */
  get registryId(): string | null {
    return this.#key('registry');
  }

  /** True when the hotel carries this key. */
  isOf(namespace: Namespace, key: string): boolean {
    const source = this.#source;
    let at = this.#keyStart(namespace);
    if (this.#keyLength(namespace) !== key.length) return this.#key(namespace) === key;
    for (let i = 0; i < key.length; i++) {
      const byte = source[at++]!;
      if (byte > LAST_ASCII) return this.#key(namespace) === key;
      if (byte !== key.charCodeAt(i)) return false;
    }
    return true;
  }

  /** Twelve characters that differ where the bytes of the view differ. */
  tag(view: View): string {
    const at = this.#start + (view === 'full' ? 36 : 24);
    return this.#source.toString('latin1', at, at + 12);
  }

  /** Length of the view's JSON in bytes. */
  bodyLength(view: View): number {
    return view === 'full' ? this.#fullLength : this.#sharedLength + NARROW_END.length;
  }

  /** The JSON of a view. The full one is a view of `bytes`, the narrow one a copy. */
  body(view: View): Buffer {
    if (view === 'full') return this.#source.subarray(this.#bodyStart, this.#end);
    const body = Buffer.allocUnsafe(this.bodyLength(view));
    this.copyBody(view, body, 0);
    return body;
  }

  /** Copies the JSON of a view to `target` at `offset`; returns the offset behind it. */
  copyBody(view: View, target: Buffer, offset: number): number {
    const start = this.#bodyStart;
    if (view === 'full') return offset + this.#source.copy(target, offset, start, this.#end);
    const end = offset + this.#source.copy(target, offset, start, start + this.#sharedLength);
    return end + NARROW_END.copy(target, end);
  }

  get #fullLength(): number {
    return this.#source.readUInt32LE(this.#start + 56);
  }

  get #sharedLength(): number {
    return this.#source.readUInt32LE(this.#start + 60);
  }

  get #bodyStart(): number {
    return this.#end - this.#fullLength;
  }

  #keyLength(namespace: Namespace): number {
    if (namespace === 'registry') return this.#source[this.#start + 76]!;
    return this.#source.readUInt16LE(this.#start + (namespace === 'id' ? 70 : 72));
  }

  #keyStart(namespace: Namespace): number {
    const start = this.#start + HEADER_BYTES;
    if (namespace === 'id') return start;
    const channel = start + this.#keyLength('id');
    return namespace === 'channel' ? channel : channel + this.#keyLength('channel');
  }

  #key(namespace: Namespace): string | null {
    const length = this.#keyLength(namespace);
    const start = this.#keyStart(namespace);
    return length === 0 ? null : this.#source.toString('utf8', start, start + length);
  }

  /**
   * The entry as it reads at `nowMs`: itself, or a copy of the same version whose certification fields
   * tell the truth of that day.
   */
  at(nowMs: number): Entry {
    if (nowMs < this.turnsAtMs && nowMs >= this.turnedAtMs) return this;
    const { bytes } = this;
    const [idLength, channelLength, urlLength] = [
      bytes.readUInt16LE(70),
      bytes.readUInt16LE(72),
      bytes.readUInt16LE(74),
    ];
    const keysEnd = HEADER_BYTES + idLength + channelLength + bytes[76]!;
    const body = bytes.length - bytes.readUInt32LE(56);
    const certifiedStart = body + bytes.readUInt32LE(64);
    const certifiedEnd = certifiedStart + bytes.readUInt16LE(68);
    const [fromDay, untilDay] = [bytes.readInt32LE(48), bytes.readInt32LE(52)];
    const url = urlLength === 0 ? 'null' : bytes.toString('utf8', keysEnd, keysEnd + urlLength);
    return assemble({
      version: this.version,
      fromDay,
      untilDay,
      keys: bytes.subarray(HEADER_BYTES, keysEnd),
      idLength,
      channelLength,
      registryLength: bytes[76]!,
      url,
      head: bytes.subarray(body, certifiedStart),
      tail: bytes.subarray(certifiedEnd),
      sharedTailLength: body + bytes.readUInt32LE(60) - certifiedEnd,
      nowMs,
    });
  }

  /** The moment (epoch ms) at which `certified` last flipped: before it the body was not yet true. */
  private get turnedAtMs(): number {
    const from = this.#source.readInt32LE(this.#start + 48);
    const until = this.#source.readInt32LE(this.#start + 52);
    if (from === NO_DAY || until === NO_DAY || from > until) return -Infinity;
    const turnsAt = this.turnsAtMs;
    if (turnsAt === from * DAY_MS) return -Infinity;
    return turnsAt === Infinity ? (until + 1) * DAY_MS : from * DAY_MS;
  }
}

/** What stands behind the head of a body: the certification, and the fields of which a view may hide the last. */
type AfterHead =
  | 'certified'
  | 'certified_from'
  | 'certified_until'
  | 'certification_url'
  | 'channel_id'
  | 'registry_id';

/** Encodes a row as it reads at `nowMs` (epoch ms). */
export function encodeHotel(row: HotelRow, nowMs: number): Entry {
  const images = [];
  for (const { url, caption } of row.images) images.push({ url, caption: caption ?? null });
  const head = JSON.stringify({
    id: row.id,
    name: row.name,
    description: row.description,
    address: row.address,
    postal_code: row.postal_code,
    city: row.city,
    country_code: row.country_code,
    latitude: row.latitude,
    longitude: row.longitude,
    language: row.language,
    star_rating: row.star_rating,
    room_count: row.room_count,
    website_url: row.website_url,
    email: row.email,
    images,
  } satisfies Omit<Hotel, AfterHead>);
  const sharedTail = `,"channel_id":${JSON.stringify(row.channel_id)},"registry_id":`;
  const id = Buffer.from(row.id);
  const channelId = Buffer.from(row.channel_id ?? '');
  const registryId = Buffer.from(row.registry_id ?? '');
  return assemble({
    version: row.version,
    fromDay: dayOf(row.certified_from),
    untilDay: dayOf(row.certified_until),
    keys: Buffer.concat([id, channelId, registryId]),
    idLength: id.length,
    channelLength: channelId.length,
    registryLength: registryId.length,
    url: row.certification_url === null ? 'null' : JSON.stringify(row.certification_url),
    head: Buffer.from(`${head.slice(0, -1)},`),
    tail: Buffer.from(`${sharedTail}${row.registry_id ?? 'null'}}`),
    sharedTailLength: Buffer.byteLength(sharedTail),
    nowMs,
  });
}

/** The version that stands for the absence of a hotel: above `version`, below every later one. */
export function versionOfRemoved(version: number): number {
  return version + 0.5;
}

/** An entry that says the hotel with this id is absent since `version` (0: it was never heard of). */
export function encodeAbsence(id: string, version: number): Entry {
  return encodeWithoutBody(id, version, 0);
}

/** An entry that says only that whatever is older than `version` is out of date. */
export function encodeWithdrawal(id: string, version: number): Entry {
  return encodeWithoutBody(id, version, WITHDRAWN);
}

function encodeWithoutBody(id: string, version: number, flags: number): Entry {
  const key = Buffer.from(id);
  const bytes = Buffer.alloc(HEADER_BYTES + key.length);
  bytes.writeDoubleLE(version, 8);
  bytes.writeDoubleLE(Infinity, 16);
  bytes.writeInt32LE(NO_DAY, 48);
  bytes.writeInt32LE(NO_DAY, 52);
  bytes.writeUInt16LE(key.length, 70);
  bytes[77] = flags;
  key.copy(bytes, HEADER_BYTES);
  return seal(bytes);
}

/**
 * Reads what a cache held, between two places of `source`. Returns undefined when it is no sound entry: damaged,
 * foreign or of another format.
 */
export function readEntry(source: Buffer, start = 0, end = source.length): Entry | undefined {
  if (end - start < HEADER_BYTES || source.readUInt32LE(start + 4) !== MAGIC) return undefined;
  if (checksum(source.subarray(start + 4, end)) !== source.readUInt32LE(start)) return undefined;
  return new Entry(source, start, end);
}

interface Parts {
  version: number;
  fromDay: number;
  untilDay: number;
  /** id, channel id and registry id, one behind the other */
  keys: Buffer;
  idLength: number;
  channelLength: number;
  registryLength: number;
  /** JSON */
  url: string;
  head: Buffer;
  tail: Buffer;
  /** how much of `tail` both views have */
  sharedTailLength: number;
  nowMs: number;
}

function assemble(parts: Parts): Entry {
  const { fromDay, untilDay, head, tail, keys, nowMs } = parts;
  const mayBeCertified = fromDay !== NO_DAY && untilDay !== NO_DAY && fromDay <= untilDay;
  const startsAtMs = fromDay * DAY_MS;
  const endsAtMs = (untilDay + 1) * DAY_MS;
  const certified = mayBeCertified && nowMs >= startsAtMs && nowMs < endsAtMs;
  let turnsAtMs = Infinity;
  if (certified) turnsAtMs = endsAtMs;
  else if (mayBeCertified && nowMs < startsAtMs) turnsAtMs = startsAtMs;

  const keptUrl = parts.url === 'null' ? '' : parts.url;
  const certification = Buffer.from(
    `"certified":${certified},"certified_from":${showDay(fromDay)},"certified_until":${showDay(untilDay)},` +
      `"certification_url":${certified ? parts.url : 'null'}`,
  );
  const urlLength = Buffer.byteLength(keptUrl);
  const bodyLength = head.length + certification.length + tail.length;
  const sharedLength = head.length + certification.length + parts.sharedTailLength;
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + keys.length + urlLength + bodyLength);
  bytes.writeDoubleLE(parts.version, 8);
  bytes.writeDoubleLE(turnsAtMs, 16);
  bytes.writeInt32LE(fromDay, 48);
  bytes.writeInt32LE(untilDay, 52);
  bytes.writeUInt32LE(bodyLength, 56);
  bytes.writeUInt32LE(sharedLength, 60);
  bytes.writeUInt32LE(head.length, 64);
  bytes.writeUInt16LE(certification.length, 68);
  bytes.writeUInt16LE(parts.idLength, 70);
  bytes.writeUInt16LE(parts.channelLength, 72);
  bytes.writeUInt16LE(urlLength, 74);
  bytes[76] = parts.registryLength;
  bytes[77] = PRESENT;
  bytes.writeUInt16LE(0, 78);
  let offset = HEADER_BYTES + keys.copy(bytes, HEADER_BYTES);
  offset += bytes.write(keptUrl, offset);
  const body = offset;
  offset += head.copy(bytes, offset);
  offset += certification.copy(bytes, offset);
  tail.copy(bytes, offset);
  // Nine bytes are twelve characters; two bodies of one hotel meet in a tag once in 2^72.
  const tagOf = (view: Buffer) => hash('sha1', view, 'base64url').slice(0, 12);
  const narrowTag = tagOf(bytes.subarray(body, body + sharedLength));
  bytes.write(narrowTag, 24, 'latin1');
  bytes.write(parts.registryLength === 0 ? narrowTag : tagOf(bytes.subarray(body)), 36, 'latin1');
  return seal(bytes);
}

function seal(bytes: Buffer): Entry {
  bytes.writeUInt32LE(MAGIC, 4);
  bytes.writeUInt32LE(checksum(bytes.subarray(4)), 0);
  return new Entry(bytes);
}

function dayOf(date: string | null): number {
  return date === null ? NO_DAY : Date.parse(`${date}T00:00:00Z`) / DAY_MS;
}

function showDay(day: number): string {
  return day === NO_DAY ? 'null' : `"${new Date(day * DAY_MS).toISOString().slice(0, 10)}"`;
}
