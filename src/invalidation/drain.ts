import type { Sql } from 'postgres';
import {
  type Entry,
  encodeAbsence,
  encodeHotel,
  HOTEL_COLUMNS,
  type HotelRow,
  versionOfRemoved,
} from '../hotels/entry.ts';
import { KEY_COLUMNS, type KeyRow, keyOf, type VersionedKey } from '../keys/record.ts';
import type { Changes } from './messages.ts';

/** Rows of the queue taken at once; each holds up to 1000 changes. */
const MAX_ROWS = 4;

interface QueueRow {
  kind: 'hotels' | 'hotels_removed' | 'hotels_truncated' | 'keys' | 'keys_truncated';
  ids: string[];
  versions: string[];
  moves_positions: boolean;
}

/** What one drain took off the queue, with the present state of all that changed. */
export interface Drained {
  rows: number;
  changes: Changes;
  entries: Entry[];
  keys: [sha256: string, key: VersionedKey][];
}

/**
 * Takes changes off the queue in the transaction that is open on the only connection of `sql`, as long as that is
 * still the one of `backendPid` (on a new connection there would be no transaction to undo it), and reads what the tables hold now: never older than
 * the change. What is no longer there becomes an absence with a version above all it had.
 */
export async function drain(sql: Sql, backendPid: number): Promise<Drained> {
  const rows = await sql.unsafe<QueueRow[]>(
    `select kind, ids, versions, moves_positions
    from hotel_api_drain_changes(case when pg_backend_pid() = $2 then $1::integer else 0 end)`,
    [MAX_ROWS, backendPid],
    { prepare: true },
  );
  const hotels = new Map<string, number>();
  const keys = new Map<string, number>();
  const changes: Changes = { hotels: [], keys: [], truncated: [], movesPositions: false };
  for (const { kind, ids, versions, moves_positions } of rows) {
    changes.movesPositions ||= moves_positions;
    if (kind === 'hotels_truncated') changes.truncated.push('hotels');
    else if (kind === 'keys_truncated') changes.truncated.push('keys');
    const target = kind === 'keys' ? keys : hotels;
    ids.forEach((id, i) => {
      target.set(id, Math.max(target.get(id) ?? 0, Number(versions[i])));
    });
  }
  const entries = await readHotels(sql, hotels, changes);
  return { rows: rows.length, changes, entries, keys: await readKeys(sql, keys, changes) };
}

async function readHotels(sql: Sql, changed: Map<string, number>, changes: Changes): Promise<Entry[]> {
  if (changed.size === 0) return [];
  const rows = await sql.unsafe<HotelRow[]>(
    `select ${HOTEL_COLUMNS} from hotels where id = any($1::text[])`,
    [[...changed.keys()]],
    { prepare: true },
  );
  const nowMs = Date.now();
  const entries: Entry[] = [];
  for (const row of rows) {
    entries.push(encodeHotel(row, nowMs));
    changes.hotels.push([row.id, row.version, row.channel_id, row.registry_id]);
    changed.delete(row.id);
  }
  for (const [id, version] of changed) {
    const entry = encodeAbsence(id, versionOfRemoved(version));
    entries.push(entry);
    changes.hotels.push([id, entry.version, null, null]);
  }
  return entries;
}

async function readKeys(
  sql: Sql,
  changed: Map<string, number>,
  changes: Changes,
): Promise<[string, VersionedKey][]> {
  if (changed.size === 0) return [];
  const rows = await sql.unsafe<KeyRow[]>(
    `select ${KEY_COLUMNS} from api_keys where key_sha256 = any(select decode(x, 'hex') from unnest($1::text[]) as x)`,
    [[...changed.keys()]],
    { prepare: true },
  );
  const keys: [string, VersionedKey][] = rows.map((row) => [row.sha256, keyOf(row)]);
  for (const { sha256 } of rows) changed.delete(sha256);
  for (const [sha256, version] of changed)
    keys.push([sha256, { version: versionOfRemoved(version), record: null }]);
  for (const [sha256, { version }] of keys) changes.keys.push([sha256, version]);
  return keys;
}
