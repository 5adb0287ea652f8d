import type { Sql } from 'postgres';
import type { VersionedKey } from '../auth/key-record.ts';
import type { Entry } from '../hotels/entry.ts';
import { withDeadline } from '../lib/deadline.ts';
import { compareHotels, compareKeys, type Findings, heldHotels, heldKeys } from './compare.ts';
import type { Drained } from './drain.ts';
import { type RedisStores, WRITE_MS } from './redis-writer.ts';

/**
 * One step looks at 250 of Redis' keys: three million, of a million hotels, are walked through in 200 minutes, for
 * a query of 80 hotels a second. It takes the one instance that does it 0.5% of a core; 1000 keys took 2%.
 */
const STEP_MS = 1_000;
/** What changed lately is compared once more, the last so many of a step. */
const MAX_RECENT = 500;

/** What Redis holds of those whose turn it is, and where the next turn begins. */
interface Held {
  hotelCursor: string;
  keyCursor: string;
  hotels: Map<string, Entry>;
  keys: Map<string, VersionedKey>;
}

/**
 * Walks through what Redis holds and compares it with PostgreSQL, for changes that went round the triggers. What
 * Redis lacks of a change may be on its way: it counts as wrong only when it is still so at the next step.
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

  /** These changes were written just now. */
  lookAgainAt({ changes, entries }: Pick<Drained, 'changes' | 'entries'>): void {
    this.#recentKeys = latest(this.#recentKeys, changes.keys);
    if (!entries[0]?.isTombstone) this.#recentHotels = latest(this.#recentHotels, changes.hotels);
  }

  /**
   * Compares some; returns what is wrong, with the truth. Where Redis does not tell in time it returns undefined, and the
   * next step looks at the same. Throws what PostgreSQL refuses.
   */
  async step(sql: Sql): Promise<Findings | undefined> {
    this.#dueAtMs = performance.now() + STEP_MS;
    // all that is asked of Redis comes first: meanwhile PostgreSQL hears nothing, and ends a session that is silent
    const held = await withDeadline(this.#ask(), WRITE_MS).catch(() => undefined);
    if (!held) return undefined;
    this.#hotelCursor = held.hotelCursor;
    this.#keyCursor = held.keyCursor;

    const { wrong, behind } = await compareHotels(sql, held.hotels);
    this.#recentHotels = [];
    // a hotel that changes all the time lacks another version at each step
    const lasting = behind.filter(([{ id }, held]) => held < (this.#suspectHotels.get(id) ?? -Infinity));
    const entries = [...wrong, ...lasting.map(([truth]) => truth)];
    this.#suspectHotels = new Map(behind.map(([{ id, version }]) => [id, version]));

    const ofKeys = await compareKeys(sql, held.keys);
    this.#recentKeys = [];
    const keys = [...ofKeys.wrong, ...ofKeys.behind.filter(([sha256]) => this.#suspectKeys.has(sha256))];
    this.#suspectKeys = new Set(ofKeys.behind.map(([sha256]) => sha256));
    const claimed = {
      hotels: new Map(wrong.map(({ id }) => [id, String(held.hotels.get(id)!.version)])),
      keys: new Map(ofKeys.wrong.map(([sha256]) => [sha256, String(held.keys.get(sha256)!.version)])),
    };
    return { entries, keys, claimed };
  }

  async #ask(): Promise<Held | undefined> {
    const { hotels, keys } = this.#stores;
    const [ofHotels, ofKeys] = await Promise.all([
      hotels.walk(this.#hotelCursor),
      keys.walk(this.#keyCursor),
    ]);
    if (!ofHotels || !ofKeys) return undefined;
    const [held, keysHeld] = await Promise.all([
      heldHotels(hotels, [
        ...new Set([...ofHotels[1], ...this.#suspectHotels.keys(), ...this.#recentHotels]),
      ]),
      heldKeys(keys, [...new Set([...ofKeys[1], ...this.#suspectKeys, ...this.#recentKeys])]),
    ]);
    return { hotelCursor: ofHotels[0], keyCursor: ofKeys[0], hotels: held, keys: keysHeld };
  }
}

/** The last names of those before and of these changes. */
function latest(
  names: string[],
  changes: readonly (readonly [name: string, ...rest: unknown[]])[],
): string[] {
  return [...names, ...changes.slice(-MAX_RECENT).map(([name]) => name)].slice(-MAX_RECENT);
}
