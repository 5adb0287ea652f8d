import { isDeepStrictEqual } from 'node:util';
import type { Sql } from 'postgres';
import type { VersionedKey } from '../auth/key-record.ts';
import { encodeAbsence, versionOfRemoved } from '../hotels/encode.ts';
import type { Entry } from '../hotels/entry.ts';
import type { NewerVersionsByKey } from '../redis/versioned-values.ts';
import { readHotels, readKeys } from './changed-rows.ts';

/** Versions in Redis that are newer than PostgreSQL's, by hotel id and by sha256 of a key. */
export interface NewerVersions {
  hotels: NewerVersionsByKey;
  keys: NewerVersionsByKey;
}

/** State of PostgreSQL for wrong values in Redis. Only the versions in `replaced` may be replaced by older ones. */
export interface Corrections {
  entries: Entry[];
  keys: [sha256: string, key: VersionedKey][];
  replaced: NewerVersions;
}

/** Reads what Redis holds under these names, by name. What it does not hold is missing. */
export async function readCached<T>(
  read: (names: string[]) => Promise<(T | undefined)[]>,
  names: ReadonlySet<string>,
): Promise<Map<string, T>> {
  const held = names.size === 0 ? [] : await read([...names]);
  const found = new Map<string, T>();
  for (const [i, name] of [...names].entries()) if (held[i] !== undefined) found.set(name, held[i]);
  return found;
}

/**
 * Compares hotels in Redis with PostgreSQL, which is read afterwards and is therefore at least as new. `wrong`: Redis
 * has a version above the table's, or other content under the same version. `behind`: Redis has an older version,
 * which is right while a change is on its way, and wrong if it lasts.
 */
export async function compareHotels(
  sql: Sql,
  held: Map<string, Entry>,
): Promise<{ wrong: Entry[]; behind: [row: Entry, cachedVersion: number][] }> {
  const wrong: Entry[] = [];
  const behind: [row: Entry, cachedVersion: number][] = [];
  if (held.size === 0) return { wrong, behind };
  const rows = await readHotels(sql, [...held.keys()]);
  const nowMs = Date.now();
  for (const [id, entry] of held) {
    const row = rows.get(id);
    if (!row) {
      if (entry.present) behind.push([encodeAbsence(id, versionOfRemoved(entry.version)), entry.version]);
    } else if (entry.version > row.version) wrong.push(row);
    else if (entry.version < row.version) {
      if (!entry.isTombstone) behind.push([row, entry.version]);
    } else if (!entry.isTombstone && !entry.at(nowMs).bytes.equals(row.at(nowMs).bytes)) wrong.push(row);
  }
  return { wrong, behind };
}

/** Compares API keys in the same way. */
export async function compareKeys(
  sql: Sql,
  held: Map<string, VersionedKey>,
): Promise<{ wrong: Corrections['keys']; behind: Corrections['keys'] }> {
  const wrong: Corrections['keys'] = [];
  const behind: Corrections['keys'] = [];
  if (held.size === 0) return { wrong, behind };
  const rows = await readKeys(sql, [...held.keys()]);
  for (const [sha256, key] of held) {
    const row = rows.get(sha256);
    if (!row) {
      if (key.record) behind.push([sha256, { version: versionOfRemoved(key.version), record: null }]);
    } else if (key.version < row.version) behind.push([sha256, row]);
    else if (!isDeepStrictEqual(row, key)) wrong.push([sha256, row]);
  }
  return { wrong, behind };
}
