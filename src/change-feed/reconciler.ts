import { isDeepStrictEqual } from 'node:util';
import type { Sql } from 'postgres';
import type { VersionedKey } from '../auth/key-record.ts';
import { encodeAbsence, versionOfRemoved } from '../hotels/encode.ts';
import type { Entry } from '../hotels/entry.ts';
import { withDeadline } from '../lib/deadline.ts';
import { readHotels, readKeys } from './changed-rows.ts';
import type { Drained } from './drain.ts';
import { type Corrections, type RedisStores, WRITE_MS } from './redis-writer.ts';

/**
 * Keys per step. Three million keys of a million hotels take 200 minutes, 80 hotels per second. This takes 0.5 % of a
 * core in one instance; 1000 keys per step took 2 %.
 */
const STEP_MS = 1_000;
/** Number of recent changes that a step compares once more. */
const MAX_RECENT = 500;

/**
 * Compares Redis with PostgreSQL key by key, to find changes past the triggers. A value missing in Redis may be on
 * its way, so it counts as wrong only if the next step finds the same.
 */
export class Reconciler {
  readonly #stores: RedisStores;
  #hotelCursor = '0';
  #keyCursor = '0';
  #recentHotels: string[] = [];
  #recentKeys: string[] = [];
  /** by id, the version that Redis lacked at the last step */
  #suspectHotels = new Map<string, number>();
  #suspectKeys = new Set<string>();
  #dueAtMs = 0;

  constructor(stores: RedisStores) {
    this.#stores = stores;
  }

  get due(): boolean {
    return performance.now() >= this.#dueAtMs;
  }

  /** Records recent changes, which are compared once more. */
  recheck({ changes, entries }: Pick<Drained, 'changes' | 'entries'>): void {
    this.#recentKeys = latest(this.#recentKeys, changes.keys);
    if (!entries[0]?.isTombstone) this.#recentHotels = latest(this.#recentHotels, changes.hotels);
  }

  /**
   * Compares the next keys. Returns the wrong ones with their state in PostgreSQL, or undefined if Redis does not
   * respond in time; the next step then repeats these keys. Throws errors of PostgreSQL.
   */
  async step(sql: Sql): Promise<Corrections | undefined> {
    this.#dueAtMs = performance.now() + STEP_MS;
    // Redis is read first, because PostgreSQL ends sessions that are silent in between
    const held = await withDeadline(this.#readSample(), WRITE_MS).catch(() => undefined);
    if (!held) return undefined;
    this.#hotelCursor = held.hotelCursor;
    this.#keyCursor = held.keyCursor;

    const { wrong, behind } = await compareHotels(sql, held.hotels);
    this.#recentHotels = [];
    // a hotel that changes constantly lacks another version at each step
    const lasting = behind.filter(([{ id }, held]) => held < (this.#suspectHotels.get(id) ?? -Infinity));
    const entries = [...wrong, ...lasting.map(([row]) => row)];
    this.#suspectHotels = new Map(behind.map(([{ id, version }]) => [id, version]));

    const ofKeys = await compareKeys(sql, held.keys);
    this.#recentKeys = [];
    const keys = [...ofKeys.wrong, ...ofKeys.behind.filter(([sha256]) => this.#suspectKeys.has(sha256))];
    this.#suspectKeys = new Set(ofKeys.behind.map(([sha256]) => sha256));
    const replaced = {
      hotels: new Map(wrong.map(({ id }) => [id, String(held.hotels.get(id)!.version)])),
      keys: new Map(ofKeys.wrong.map(([sha256]) => [sha256, String(held.keys.get(sha256)!.version)])),
    };
    return { entries, keys, replaced };
  }

  /** Reads the values in Redis for the keys of a step, and the next cursors. */
  async #readSample() {
    const { hotels, keys } = this.#stores;
    const [ofHotels, ofKeys] = await Promise.all([
      hotels.scan(this.#hotelCursor),
      keys.scan(this.#keyCursor),
    ]);
    if (!ofHotels || !ofKeys) return undefined;
    const [held, keysHeld] = await Promise.all([
      readCached(
        (ids) => hotels.entriesAndTombstones(ids),
        new Set([...ofHotels[1], ...this.#suspectHotels.keys(), ...this.#recentHotels]),
      ),
      readCached(
        (sha256s) => keys.readMany(sha256s),
        new Set([...ofKeys[1], ...this.#suspectKeys, ...this.#recentKeys]),
      ),
    ]);
    return { hotelCursor: ofHotels[0], keyCursor: ofKeys[0], hotels: held, keys: keysHeld };
  }
}

/** Returns the last names of the earlier and of these changes. */
function latest(
  names: string[],
  changes: readonly (readonly [name: string, ...rest: unknown[]])[],
): string[] {
  return [...names, ...changes.slice(-MAX_RECENT).map(([name]) => name)].slice(-MAX_RECENT);
}

/** Reads what Redis holds under these names, by name. What it does not hold is missing. */
async function readCached<T>(
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
async function compareHotels(
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
async function compareKeys(
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
