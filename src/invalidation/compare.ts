import type { Sql } from 'postgres';
import { type Entry, encodeAbsence, versionOfRemoved } from '../hotels/entry.ts';
import type { SharedCache } from '../hotels/shared.ts';
import { encodeKey, type VersionedKey } from '../keys/record.ts';
import type { SharedKeys } from '../keys/shared.ts';
import { readHotels, readKeys } from './rows.ts';

/** The truth in the place of what was found to be wrong. */
export interface Findings {
  entries: Entry[];
  keys: [sha256: string, key: VersionedKey][];
}

/**
 * Compares what Redis holds of these hotels with PostgreSQL, which is read afterwards and so knows at least as
 * much. `wrong`: Redis claims more than the table ever said, or something else under the same version. `behind`:
 * Redis holds less, which version is told; that is right while a change is on its way, and wrong if it lasts.
 */
export async function compareHotels(
  sql: Sql,
  shared: SharedCache,
  ids: string[],
): Promise<{ wrong: Entry[]; behind: [truth: Entry, heldVersion: number][] }> {
  if (ids.length === 0) return { wrong: [], behind: [] };
  const held = await shared.held(ids);
  const rows = await readHotels(sql, ids);
  const nowMs = Date.now();
  const wrong: Entry[] = [];
  const behind: [truth: Entry, heldVersion: number][] = [];
  ids.forEach((id, i) => {
    const entry = held[i];
    if (!entry) return;
    const row = rows.get(id);
    if (!row) {
      if (entry.present) behind.push([encodeAbsence(id, versionOfRemoved(entry.version)), entry.version]);
    } else if (entry.version > row.version) wrong.push(row);
    else if (entry.version < row.version) {
      if (!entry.withdrawn) behind.push([row, entry.version]);
    } else if (!entry.withdrawn && !entry.at(nowMs).bytes.equals(row.at(nowMs).bytes)) wrong.push(row);
  });
  return { wrong, behind };
}

/** The same for API keys, all of them: a key that differs is asked for again by whoever uses it, and that is all. */
export async function compareKeys(
  sql: Sql,
  shared: SharedKeys,
  sha256s: string[],
): Promise<Map<string, VersionedKey>> {
  if (sha256s.length === 0) return new Map();
  const held = await Promise.all(sha256s.map((sha256) => shared.read(sha256)));
  const rows = await readKeys(sql, sha256s);
  const differing = new Map<string, VersionedKey>();
  sha256s.forEach((sha256, i) => {
    const key = held[i];
    if (!key) return;
    const truth = rows.get(sha256) ?? { version: versionOfRemoved(key.version), record: null };
    if (!rows.has(sha256) && key.record === null) return;
    if (!encodeKey(sha256, truth).equals(encodeKey(sha256, key))) differing.set(sha256, truth);
  });
  return differing;
}
