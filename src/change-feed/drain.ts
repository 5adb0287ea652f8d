import type { Sql } from 'postgres';
import { KEY_COLUMNS, type KeyRow, keyOf, type VersionedKey } from '../auth/key-record.ts';
import { encodeAbsence, encodeHotel, encodeTombstone, versionOfRemoved } from '../hotels/encode.ts';
import type { Entry } from '../hotels/entry.ts';
import { HOTEL_COLUMNS, type HotelRow } from '../hotels/row.ts';
import { completed } from '../postgres/connect.ts';
import type { Changes, HotelChange, MemberChange } from './messages.ts';

/**
 * Maximum number of queue rows per drain, and of changes in them (a row holds up to 1000). Storing 20,000 tombstones
 * in Redis took up to 485 ms on a machine with three times its load; the limit is 600 ms.
 */
const MAX_ROWS = 2_000;
const MAX_CHANGES = 10_000;
/**
 * Maximum number of hotels that are read and replaced in Redis. More are replaced by tombstones: encoding 100,000
 * took 8 s, and most would change or be evicted before their next read.
 */
const MAX_REPLACED = 500;
/** Number of membership changes of a collection above which workers reload the whole collection. */
const MAX_MEMBERS_ANNOUNCED = 2_000;

interface QueueRow {
  kind:
    | 'hotels'
    | 'hotels_removed'
    | 'hotels_truncated'
    | 'keys'
    | 'keys_truncated'
    | 'members'
    | 'collections'
    | 'collections_truncated';
  /** of members */
  of_collection: string | null;
  ids: string[];
  versions: string[];
  channel_ids: (string | null)[];
  registry_ids: (string | null)[];
  moves_positions: boolean;
  /** time since the statement; the time of the commit is unknown */
  age_ms: number;
}

/** Statement that returns the last position in the change log. */
export const LOG_POSITION = 'select position::float8 from hotel_api_change_log_state';

/** Result of one drain of the queue. */
export interface Drained {
  rows: number;
  /** age in ms of the oldest change; -Infinity without changes */
  oldestMs: number;
  changes: Changes;
  /** present states of the changed hotels, or tombstones of all of them */
  entries: Entry[];
  /** present states of the changed keys; empty if the rows were not read */
  keys: [sha256: string, key: VersionedKey][];
  /** number of memberships that were added or removed */
  members: number;
  /** last position in the change log; undefined: the log has lost its state */
  position: number | undefined;
}

/** Row that `hotel_api_drain` returns besides changes: a hotel (`id` is not null) or a key (`sha256` is not null). */
type PresentRow = { kind: null } & (HotelRow | { id: null }) &
  ({ sha256: null } | (Omit<KeyRow, 'id' | 'version'> & { key_id: string; key_version: number }));

/**
 * Begins a transaction (by `begin`, one or more statements) on the only connection of `sql` and takes changes off the
 * queue in one round trip. Both are one message, so nothing is taken without a transaction, and only while the
 * connection is that of `backendPid`, which holds the invalidator's lock. Rows read with the changes are never older
 * than them. A deleted row becomes an absence with a version above all of its versions. Without `readsRows` the
 * tables are not read, so their locks are not waited for.
 */
export async function beginAndDrain(
  sql: Sql,
  begin: string,
  backendPid: number,
  readsRows = true,
): Promise<Drained> {
  const results = completed(
    await sql
      .unsafe(
        `${begin};
      select (d.change).kind, (d.change).ids, (d.change).versions, (d.change).collection_id as of_collection, (d.change).moves_positions,
        -- as JSON: the driver reads a null in an array as the text NULL
        to_json((d.change).channel_ids) as channel_ids,
        to_json((d.change).registry_ids::text[]) as registry_ids,
        extract(epoch from clock_timestamp() - (d.change).committed_after)::float8 * 1000 as age_ms, h.*, k.sha256, k.id as key_id, k.scopes, k.expires_at_ms, k.revoked,
        k.rate_limit_requests, k.rate_limit_window_s, k.collection_id, k.version as key_version
      from hotel_api_drain(
          case when pg_backend_pid() = ${backendPid} then ${MAX_ROWS} else 0 end, ${MAX_CHANGES}, ${readsRows ? MAX_REPLACED : -1}
        ) as d,
        lateral (select ${HOTEL_COLUMNS} from (select (d.hotel).*) as hotel) as h,
        lateral (select ${KEY_COLUMNS} from (select (d.key).*) as key) as k;
      ${LOG_POSITION}`,
      )
      .simple(),
  ) as unknown as unknown[];
  const rows = results.at(-2) as (QueueRow | PresentRow)[];
  const [state] = results.at(-1) as { position: number }[];
  const hotels = new Map<string, HotelChange>();
  const keys = new Map<string, number>();
  const memberChanges = new MemberChanges();
  const truncated = new Set<'hotels' | 'keys'>();
  const presentHotels = new Map<string, Entry>();
  const presentKeys = new Map<string, VersionedKey>();
  let movesPositions = false;
  const nowMs = Date.now();
  for (const row of rows) {
    if (row.kind !== null) movesPositions ||= row.moves_positions;
    switch (row.kind) {
      case null:
        if (row.id !== null) presentHotels.set(row.id, encodeHotel(row, nowMs));
        if (row.sha256 !== null)
          presentKeys.set(row.sha256, keyOf({ ...row, id: row.key_id, version: row.key_version }));
        break;
      case 'hotels':
      case 'hotels_removed':
        noteHotels(row, hotels);
        break;
      case 'keys':
        row.ids.forEach((sha256, i) => {
          keys.set(sha256, Math.max(keys.get(sha256) ?? 0, Number(row.versions[i])));
        });
        break;
      case 'members':
        memberChanges.note(row.of_collection!, row.ids);
        break;
      case 'collections':
        for (const id of row.ids) memberChanges.noteAll(id);
        break;
      case 'collections_truncated':
        memberChanges.noteAll(null);
        break;
      case 'hotels_truncated':
        truncated.add('hotels');
        break;
      case 'keys_truncated':
        truncated.add('keys');
        break;
    }
  }
  const isReplacedByTombstones = !readsRows || hotels.size > MAX_REPLACED;
  const entries = isReplacedByTombstones
    ? [...hotels.values()].map(([id, version]) => encodeTombstone(id, version))
    : presentState(hotels, presentHotels);
  const changedKeys = Array.from(keys, ([sha256, version]): [string, VersionedKey] => [
    sha256,
    presentKeys.get(sha256) ?? { version: versionOfRemoved(version), record: null },
  ]);
  const changes: Changes = {
    hotels: [...hotels.values()],
    keys: readsRows ? changedKeys.map(([sha256, { version }]) => [sha256, version]) : [...keys],
    members: memberChanges.announced,
    truncated: [...truncated],
    movesPositions,
  };
  const queued = rows.filter((row): row is QueueRow => row.kind !== null);
  const oldestMs = Math.max(...queued.map(({ age_ms }) => age_ms));
  return {
    ...{ rows: queued.length, oldestMs, changes, entries },
    keys: readsRows ? changedKeys : [],
    members: memberChanges.count,
    position: state?.position,
  };
}

/**
 * Merges changes of the same hotel: the largest version counts, and the last known ids are kept even if the hotel is
 * deleted.
 */
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

/** Returns the present states to store in Redis, and corrects the announcements in `hotels` accordingly. */
function presentState(hotels: Map<string, HotelChange>, present: Map<string, Entry>): Entry[] {
  const entries: Entry[] = [];
  for (const [id, change] of hotels) {
    const entry = present.get(id);
    if (entry) hotels.set(id, [id, entry.version, entry.channelId, entry.registryId]);
    // an insert that was drained with an earlier deletion, or that a deletion still in the queue has undone
    else if (Number.isInteger(change[1])) change[1] = versionOfRemoved(change[1]);
    entries.push(entry ?? encodeAbsence(id, change[1]));
  }
  return entries;
}

/** Membership changes that one drain took off the queue. */
class MemberChanges {
  /** null: of any hotel */
  readonly #ids = new Map<string | null, Set<string> | null>();
  /** hotels that were added or removed */
  count = 0;

  note(collection: string, ids: string[]): void {
    this.count += ids.length;
    const known = this.#ids.get(collection);
    if (known === null) return;
    const all = known ?? new Set<string>();
    for (const id of ids) all.add(id);
    this.#ids.set(collection, all.size > MAX_MEMBERS_ANNOUNCED ? null : all);
  }

  noteAll(collection: string | null): void {
    this.#ids.set(collection, null);
  }

  get announced(): MemberChange[] {
    return Array.from(this.#ids, ([collection, ids]) => [collection, ids && [...ids]]);
  }
}
