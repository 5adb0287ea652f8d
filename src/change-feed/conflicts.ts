import type { Sql } from 'postgres';
import { encodeAbsence, versionOfRemoved } from '../hotels/encode.ts';
import { readHotels, readKeys } from './changed-rows.ts';
import type { Drained } from './drain.ts';
import type { Changes } from './messages.ts';
import type { Corrections, NewerVersions, RedisWriter } from './redis-writer.ts';

/**
 * Maximum number of rounds; each fails only if another writer of Redis stored a newer value since the previous one.
 */
const ROUNDS = 3;
/**
 * Maximum age of a row that is written to Redis. A process that was stopped for longer may have lost its term, and the
 * row may have changed since, even to a smaller version (see `resolveConflicts`). The next term then finds its marker
 * replaced, less than 5 s after the row was read: the limit for old values in a fault.
 */
export const MAX_READ_AGE_MS = 3_000;

/**
 * Replaces values in Redis that rejected the present row, and adds them to the changes to announce. Either a worker stored
 * a later change, or the row has a smaller version than Redis knows. Such a row results from a history that was cut
 * short, or from an INSERT that drew its version and then waited. Meanwhile another transaction changed and deleted the
 * same row. The row in the table is correct even if its version is smaller. Returns false if Redis did not take a
 * value.
 */
export async function resolveConflicts(
  sql: Sql,
  writer: RedisWriter,
  rejected: NewerVersions,
  drained: Drained,
): Promise<boolean> {
  let newer = rejected;
  for (let round = 0; newer.hotels.size + newer.keys.size > 0; round++) {
    if (round === ROUNDS) return false;
    const readAtMs = performance.now();
    const present = await presentState(sql, newer, drained);
    if (isTooOld(readAtMs)) return false;
    const announced = changesOf(present);
    drained.changes.hotels.push(...announced.hotels);
    drained.changes.keys.push(...announced.keys);
    const left = await writer.replace(present);
    if (!left) return false;
    newer = left;
  }
  return true;
}

/** Returns true if rows that were requested at this time must not be written to Redis any more. */
export function isTooOld(readAtMs: number): boolean {
  return performance.now() - readAtMs > MAX_READ_AGE_MS;
}

/** Returns the changes to announce for corrections. */
export function changesOf({ entries, keys }: Corrections): Pick<Changes, 'hotels' | 'keys'> {
  return {
    hotels: entries.map(({ id, version, channelId, registryId }) => [id, version, channelId, registryId]),
    keys: keys.map(([sha256, { version }]) => [sha256, version]),
  };
}

/** Reads the present rows of what Redis rejected. */
async function presentState(
  sql: Sql,
  newer: NewerVersions,
  { entries, keys }: Drained,
): Promise<Corrections> {
  const present: Corrections = { entries: [], keys: [], replaced: newer };
  if (newer.hotels.size > 0) {
    // tombstones do not describe the rows
    const rows = entries[0]?.isTombstone ? undefined : await readHotels(sql, [...newer.hotels.keys()]);
    for (const entry of entries) {
      const { id, version } = entry;
      if (!newer.hotels.has(id)) continue;
      const gone = entry.present ? encodeAbsence(id, versionOfRemoved(version)) : entry;
      present.entries.push(rows?.get(id) ?? gone);
    }
  }
  if (newer.keys.size > 0) {
    const rows = await readKeys(sql, [...newer.keys.keys()]);
    for (const [sha256, { version, record }] of keys) {
      if (!newer.keys.has(sha256)) continue;
      const gone = { version: record ? versionOfRemoved(version) : version, record: null };
      present.keys.push([sha256, rows.get(sha256) ?? gone]);
    }
  }
  return present;
}
