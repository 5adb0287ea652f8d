import { type EventLoop, workOf } from '../lib/event-loop.ts';
import { DAY_MS } from '../wasm/constants.ts';
import { assemble } from './assemble.ts';
import { Entry } from './entry.ts';
import {
  CHANNEL_LENGTH_AT,
  FROM_DAY_AT,
  HEADER_BYTES,
  ID_LENGTH_AT,
  LABEL_AT,
  MAGIC,
  MAGIC_AT,
  NO_DAY,
  REGISTRY_LENGTH_AT,
  UNTIL_DAY_AT,
  VALID_UNTIL_AT,
} from './entry-layout.ts';

import type { Namespace } from './namespace.ts';
import { FIELDS_OF_ROW, type HotelRow } from './row.ts';

/** Fields before the certification. */
const FIELDS_OF_HEAD = FIELDS_OF_ROW.slice(0, FIELDS_OF_ROW.indexOf('certified_from'));

/** Bytes that are encoded in one turn of the event loop: 100 usual hotels, or two of the maximum size. */
const TURN_BYTES = 128 * 1024;

/** Encodes a row that was read at the position `label`, as it reads at `nowMs` (epoch ms). */
export function encodeHotel(row: HotelRow, label: number, nowMs: number): Entry {
  const fields: Record<string, unknown> = {};
  for (const field of FIELDS_OF_HEAD) fields[field] = row[field];
  fields.images = row.images.map(({ url, caption }) => ({ url, caption: caption ?? null }));
  const head = JSON.stringify(fields);
  const sharedTail = `,"channel_id":${JSON.stringify(row.channel_id)},"registry_id":`;
  const bytes = assemble({
    label,
    fromDay: dayOf(row.certified_from),
    untilDay: dayOf(row.certified_until),
    id: row.id,
    channelId: row.channel_id,
    registryId: row.registry_id,
    url: row.certification_url === null ? 'null' : JSON.stringify(row.certification_url),
    head: Buffer.from(`${head.slice(0, -1)},`),
    tail: Buffer.from(`${sharedTail}${row.registry_id ?? 'null'}}`),
    sharedTailLength: Buffer.byteLength(sharedTail),
    nowMs,
  });
  return new Entry(bytes);
}

/**
 * Calls `encode` for each row, for a few of them in each turn of the event loop, for the first at once. It returns the number of
 * bytes that it has made.
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
    while (at < rows.length && bytes < TURN_BYTES) bytes += encode(rows[at++]!);
  };
  encodeNext();
  // Rows hold a place at PostgreSQL, or of a load, until they are encoded: they do not wait behind the owner's other work. The
  // next turn weighs as much as the last one.
  while (at < rows.length) await eventLoop.run(`rows of ${owner}`, workOf(bytes), encodeNext);
}

/** Encodes that no hotel had this key when it was read at `label`: an entry that has this key alone, and no body. */
export function encodeAbsence(namespace: Namespace, key: string, label: number): Entry {
  const bytes = Buffer.alloc(HEADER_BYTES + Buffer.byteLength(key));
  const length = bytes.write(key, HEADER_BYTES);
  bytes.writeUInt32LE(MAGIC, MAGIC_AT);
  bytes.writeDoubleLE(label, LABEL_AT);
  bytes.writeDoubleLE(Infinity, VALID_UNTIL_AT);
  bytes.writeInt32LE(NO_DAY, FROM_DAY_AT);
  bytes.writeInt32LE(NO_DAY, UNTIL_DAY_AT);
  if (namespace === 'registry') bytes.writeUInt8(length, REGISTRY_LENGTH_AT);
  else bytes.writeUInt16LE(length, namespace === 'id' ? ID_LENGTH_AT : CHANNEL_LENGTH_AT);
  return new Entry(bytes);
}

function dayOf(date: string | null): number {
  return date === null ? NO_DAY : Date.parse(`${date}T00:00:00Z`) / DAY_MS;
}
