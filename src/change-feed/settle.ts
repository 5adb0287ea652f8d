import type { Sql } from 'postgres';
import { encodeAbsence, versionOfRemoved } from '../hotels/encode.ts';
import { readHotels, readKeys } from './changed-rows.ts';
import type { Claims, Findings } from './compare.ts';
import type { Drained } from './drain.ts';
import type { Changes } from './messages.ts';
import type { RedisWriter } from './redis-writer.ts';

/**
 * Maximum number of rounds; each fails only if another writer of Redis stored a newer value since the previous one.
 */
const ROUNDS = 3;
/**
 * Maximum age of what is written to Redis. A process that was stopped longer after it read a row may have lost its term,
 * and a later row may have a smaller version (see `settle`). With the time until a later term finds its marker replaced,
 * this is less than the 5 s for which a fault may show old values.
 */
export const MAX_READ_AGE_MS = 3_000;

/**
 * Replaces values in Redis that rejected the present row, and adds them to the changes to announce. Either a worker stored
 * a later change, or the row has a smaller version than Redis knows. Such a row results from an INSERT that drew its
 * version and then waited for a transaction that changed and deleted the same row, or from a history that was cut short.
 * The row in the table is correct even if its version is smaller. Returns false if Redis did not take a value.
 */
export async function settle(
  sql: Sql,
  writer: RedisWriter,
  rejected: Claims,
  drained: Drained,
): Promise<boolean> {
  let claimed = rejected;
  for (let round = 0; claimed.hotels.size + claimed.keys.size > 0; round++) {
    if (round === ROUNDS) return false;
    const readAtMs = performance.now();
    const truth = await truthOf(sql, claimed, drained);
    if (isTooOld(readAtMs)) return false;
    const announced = changesOf(truth);
    drained.changes.hotels.push(...announced.hotels);
    drained.changes.keys.push(...announced.keys);
    const left = await writer.replace(truth);
    if (!left) return false;
    claimed = left;
  }
  return true;
}

/** Returns true if rows that were requested at this time must not be written to Redis any more. */
export function isTooOld(readAtMs: number): boolean {
  return performance.now() - readAtMs > MAX_READ_AGE_MS;
}

/** Returns the changes to announce for corrections. */
export function changesOf({ entries, keys }: Findings): Pick<Changes, 'hotels' | 'keys'> {
  return {
    hotels: entries.map(({ id, version, channelId, registryId }) => [id, version, channelId, registryId]),
    keys: keys.map(([sha256, { version }]) => [sha256, version]),
  };
}

/** Reads the present rows of what Redis rejected. */
async function truthOf(sql: Sql, claimed: Claims, { entries, keys }: Drained): Promise<Findings> {
  const truth: Findings = { entries: [], keys: [], claimed };
  if (claimed.hotels.size > 0) {
    // tombstones say nothing of the rows
    const rows = entries[0]?.isTombstone ? undefined : await readHotels(sql, [...claimed.hotels.keys()]);
    for (const entry of entries) {
      const { id, version } = entry;
      if (!claimed.hotels.has(id)) continue;
      const gone = entry.present ? encodeAbsence(id, versionOfRemoved(version)) : entry;
      truth.entries.push(rows?.get(id) ?? gone);
    }
  }
  if (claimed.keys.size > 0) {
    const rows = await readKeys(sql, [...claimed.keys.keys()]);
    for (const [sha256, { version, record }] of keys) {
      if (!claimed.keys.has(sha256)) continue;
      const gone = { version: record ? versionOfRemoved(version) : version, record: null };
      truth.keys.push([sha256, rows.get(sha256) ?? gone]);
    }
  }
  return truth;
}
