import type { Sql } from 'postgres';
import type { Entry } from '../hotels/entry.ts';
import { encodeAbsence, encodeWithdrawal, versionOfRemoved } from '../hotels/entry.ts';
import type { VersionedKey } from '../keys/record.ts';
import type { Changes, HotelChange } from './messages.ts';
import { readHotels, readKeys } from './rows.ts';

/** Taken off the queue at once: rows, and about how many changes in them (a row holds up to 1000). */
const MAX_ROWS = 2_000;
const MAX_CHANGES = 20_000;
/**
 * Up to so many hotels are read at once and replaced in Redis. More are withdrawn there instead: reading and
 * encoding 100,000 took 8 s, and most would be changed or evicted before anybody asks for them.
 */
const MAX_REPLACED = 500;

interface QueueRow {
  kind: 'hotels' | 'hotels_removed' | 'hotels_truncated' | 'keys' | 'keys_truncated';
  ids: string[];
  versions: string[];
  channel_ids: (string | null)[];
  registry_ids: (string | null)[];
  moves_positions: boolean;
  /** since the statement that made the change; when it was committed is not known */
  age_ms: number;
}

/** What one drain took off the queue. */
export interface Drained {
  rows: number;
  /** how long ago the oldest of them was made; -Infinity when there is none */
  oldestMs: number;
  changes: Changes;
  /** the present state of each hotel that changed, or withdrawals of all of them */
  entries: Entry[];
  keys: [sha256: string, key: VersionedKey][];
}

/**
 * Takes changes off the queue in the transaction that is open on the only connection of `sql`, as long as that is
 * still the one of `backendPid`: on a new connection there would be no transaction to undo it. What is read then
 * from the tables is never older than the change. What is no longer there becomes an absence with a version above
 * all it had.
 */
export async function drain(sql: Sql, backendPid: number): Promise<Drained> {
  const rows = await sql.unsafe<QueueRow[]>(
    `select kind, ids, versions, channel_ids, registry_ids, moves_positions,
      extract(epoch from clock_timestamp() - committed_after)::float8 * 1000 as age_ms
    from hotel_api_drain_changes(case when pg_backend_pid() = $3 then $1::integer else 0 end, $2)`,
    [MAX_ROWS, MAX_CHANGES, backendPid],
    { prepare: true },
  );
  const hotels = new Map<string, HotelChange>();
  const keys = new Map<string, number>();
  const truncated = new Set<'hotels' | 'keys'>();
  let movesPositions = false;
  for (const row of rows) {
    movesPositions ||= row.moves_positions;
    switch (row.kind) {
      case 'hotels':
      case 'hotels_removed':
        noteHotels(row, hotels);
        break;
      case 'keys':
        row.ids.forEach((sha256, i) => {
          keys.set(sha256, Math.max(keys.get(sha256) ?? 0, Number(row.versions[i])));
        });
        break;
      case 'hotels_truncated':
        truncated.add('hotels');
        break;
      case 'keys_truncated':
        truncated.add('keys');
        break;
    }
  }
  const entries = hotels.size > MAX_REPLACED ? withdraw(hotels) : await presentState(sql, hotels);
  const presentKeys = await presentKeysOf(sql, keys);
  const changes: Changes = {
    hotels: [...hotels.values()],
    keys: presentKeys.map(([sha256, { version }]) => [sha256, version]),
    truncated: [...truncated],
    movesPositions,
  };
  const oldestMs = Math.max(...rows.map(({ age_ms }) => age_ms));
  return { rows: rows.length, oldestMs, changes, entries, keys: presentKeys };
}

/** Of several changes of a hotel the largest version counts; the ids it last carried stay named, though it be gone. */
function noteHotels(row: QueueRow, hotels: Map<string, HotelChange>): void {
  const removed = row.kind === 'hotels_removed';
  row.ids.forEach((id, i) => {
    const stored = Number(row.versions[i]);
    const version = removed ? versionOfRemoved(stored) : stored;
    const known = hotels.get(id);
    if (!known) hotels.set(id, [id, version, row.channel_ids[i] ?? null, row.registry_ids[i] ?? null]);
    else {
      if (!removed && (version > known[1] || (known[2] === null && known[3] === null))) {
        known[2] = row.channel_ids[i] ?? null;
        known[3] = row.registry_ids[i] ?? null;
      }
      known[1] = Math.max(version, known[1]);
    }
  });
}

/** Reads the hotels and corrects in `hotels` what is told of them. */
async function presentState(sql: Sql, hotels: Map<string, HotelChange>): Promise<Entry[]> {
  if (hotels.size === 0) return [];
  const present = await readHotels(sql, [...hotels.keys()]);
  const entries: Entry[] = [];
  for (const [id, change] of hotels) {
    const entry = present.get(id);
    if (entry) hotels.set(id, [id, entry.version, entry.channelId, entry.registryId]);
    // an insert that was drained with the deletion before it, or that was undone by one yet to be drained
    else if (Number.isInteger(change[1])) change[1] = versionOfRemoved(change[1]);
    entries.push(entry ?? encodeAbsence(id, change[1]));
  }
  return entries;
}

function withdraw(hotels: Map<string, HotelChange>): Entry[] {
  return Array.from(hotels.values(), ([id, version]) => encodeWithdrawal(id, version));
}

async function presentKeysOf(
  sql: Sql,
  changed: Map<string, number>,
): Promise<[sha256: string, key: VersionedKey][]> {
  if (changed.size === 0) return [];
  const present = await readKeys(sql, [...changed.keys()]);
  return Array.from(changed, ([sha256, version]) => [
    sha256,
    present.get(sha256) ?? { version: versionOfRemoved(version), record: null },
  ]);
}
