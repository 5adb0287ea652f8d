import { hash } from 'node:crypto';
import { DAY_MS, monotonicMs } from '../lib/clock.ts';
import { BUDGET_MS, type EventLoop, workOf } from '../lib/event-loop.ts';
import { Entry } from './entry.ts';
import * as layout from './entry-layout.ts';
import { Hotel } from './hotel.ts';
import type { HotelRow } from './row.ts';

const FIELDS = Object.keys(Hotel.properties);
const [FLAG_AT, URL_AT] = [FIELDS.indexOf('certified'), FIELDS.indexOf('certification_url')];
const HEAD_FIELDS = FIELDS.slice(0, FLAG_AT);
const FIELDS_BETWEEN = FIELDS.slice(FLAG_AT + 1, URL_AT);
const END_FIELDS = FIELDS.slice(URL_AT + 1, FIELDS.indexOf('registry_id'));

/** Magic number of entries in this layout with these fields. An entry of a release that has another one is never read. */
export const MAGIC = magicOf(FIELDS);

/** Bytes that are encoded in one turn of their owner: 100 usual hotels, or two of the maximum size. */
const TURN_BYTES = 128 * 1024;

export function magicOf(fields: readonly string[]): number {
  const text = JSON.stringify([Object.entries(layout).sort(), fields]);
  return hash('sha256', text, 'buffer').readUInt32LE();
}

/** Encodes a row that was read at the position `label`. The body shows `certified` as of `nowMs` (epoch ms). */
export function encodeHotel(row: HotelRow, label: number, nowMs: number): Entry {
  const images = row.images.map(({ url, caption }) => ({ url, caption: caption ?? null }));
  const head = `{${jsonOf(HEAD_FIELDS, { ...row, images })},"certified":`;
  const between = `,${jsonOf(FIELDS_BETWEEN, row)},"certification_url":`;
  // the registry id is digits, which a number may not represent
  const registryId = `${row.registry_id ?? 'null'}}`;
  const end = `,${jsonOf(END_FIELDS, row)},"registry_id":${registryId}`;
  const shown = (certified: boolean) => {
    const url = JSON.stringify(certified ? row.certification_url : null);
    const body = Buffer.from(`${head}${certified}${between}${url}${end}`);
    const narrowTag = tagOf(body.subarray(0, -registryId.length));
    return { url, body, tags: narrowTag + (row.registry_id === null ? narrowTag : tagOf(body)) };
  };
  const { fromMs, untilMs } = certificationOf(row);
  const isCertified = nowMs >= fromMs && nowMs < untilMs;
  const { url, body, tags } = shown(isCertified);
  const other = fromMs < untilMs ? shown(!isCertified) : undefined;
  const behind = Buffer.from(other ? `${!isCertified}${other.url}${other.tags}` : '');
  const keys = [row.id, row.channel_id, row.registry_id].map((key) => Buffer.from(key ?? ''));
  const bytes = Buffer.concat([Buffer.alloc(layout.HEADER_BYTES), ...keys, body, behind]);
  keys.forEach(({ length }, i) => void bytes.writeUInt16LE(length, layout.KEY_LENGTHS_AT + 2 * i));
  bytes.writeUInt32LE(MAGIC, layout.MAGIC_AT);
  bytes.writeDoubleLE(label, layout.LABEL_AT);
  bytes.writeUInt32LE(body.length, layout.BODY_LENGTH_AT);
  bytes.writeUInt32LE(body.length - registryId.length, layout.SHARED_LENGTH_AT);
  bytes.writeDoubleLE(fromMs, layout.CERTIFIED_FROM_AT);
  bytes.writeDoubleLE(untilMs, layout.CERTIFIED_UNTIL_AT);
  bytes.write(tags, layout.NARROW_TAG_AT, 'latin1');
  bytes.writeUInt16LE(Number(isCertified), layout.SHOWN_AT);
  bytes.writeUInt16LE(Buffer.byteLength(url), layout.URL_LENGTH_AT);
  bytes.writeUInt16LE(Buffer.byteLength(between), layout.BETWEEN_LENGTH_AT);
  bytes.writeUInt32LE(Buffer.byteLength(head), layout.HEAD_LENGTH_AT);
  bytes.writeUInt32LE(behind.length, layout.OTHER_LENGTH_AT);
  return new Entry(bytes);
}

/** Returns these fields as members of a JSON object, in this order. */
function jsonOf(fields: readonly string[], row: object): string {
  const values = row as Record<string, unknown>;
  const ordered: Record<string, unknown> = {};
  for (const field of fields) ordered[field] = values[field];
  return JSON.stringify(ordered).slice('{'.length, -'}'.length);
}

/**
 * Calls `encode` for each row, for a few of them in each turn of the owner. `encode` returns the number of bytes that it has
 * made. A turn also ends after `BUDGET_MS`.
 */
export async function encodeInTurns<Row>(
  rows: readonly Row[],
  owner: string,
  eventLoop: EventLoop,
  encode: (row: Row) => number,
): Promise<void> {
  let at = 0;
  let bytes = 0;
  const encodeNext = () => {
    bytes = 0;
    const untilMs = monotonicMs() + BUDGET_MS;
    do bytes += encode(rows[at++]!);
    while (at < rows.length && bytes < TURN_BYTES && monotonicMs() < untilMs);
  };
  // Rows hold a place at PostgreSQL, or of a load, until they are encoded: they do not wait behind the owner's other work. A turn
  // weighs as much as the last one.
  while (at < rows.length) await eventLoop.run(`rows of ${owner}`, workOf(bytes), encodeNext);
}

/** Nine bytes are twelve characters. Two bodies of one hotel share a tag with a probability of 2^-72. */
function tagOf(view: Buffer): string {
  return hash('sha1', view, 'base64url').slice(0, layout.TAG_BYTES);
}

/** Returns the times (epoch ms) from which, and before which, a hotel is certified; both 0 if it never is. */
function certificationOf({ certified_from: from, certified_until: until }: HotelRow) {
  if (from === null || until === null || from > until) return { fromMs: 0, untilMs: 0 };
  return { fromMs: Date.parse(from), untilMs: Date.parse(until) + DAY_MS };
}
