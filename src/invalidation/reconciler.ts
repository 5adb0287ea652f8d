import type { Sql } from 'postgres';
import { compareHotels, compareKeys, type Findings } from './compare.ts';
import type { Drained } from './drain.ts';
import type { RedisAccess } from './redis-writer.ts';

/**
 * One step looks at 1000 of Redis' keys: three million, of a million hotels, are walked through in 50 minutes, for
 * a query of 300 hotels a second.
 */
const STEP_MS = 1_000;
/** What changed lately is compared once more, the last so many of a step. */
const MAX_RECENT = 500;

/**
 * Walks through what Redis holds and compares it with PostgreSQL, for changes that went round the triggers. What
 * Redis lacks of a change may be on its way: it counts as wrong only when it is still so at the next step.
 */
export class Reconciler {
  readonly #access: RedisAccess;
  #hotelCursor = '0';
  #keyCursor = '0';
  #recent: string[] = [];
  /** by id, the version that Redis lacked at the last step */
  #suspectHotels = new Map<string, number>();
  #suspectKeys = new Set<string>();
  #dueAtMs = 0;

  constructor(access: RedisAccess) {
    this.#access = access;
  }

  get due(): boolean {
    return performance.now() >= this.#dueAtMs;
  }

  /** These changes were written just now. */
  lookAgainAt({ changes, entries }: Pick<Drained, 'changes' | 'entries'>): void {
    if (entries[0]?.withdrawn) return;
    for (const [id] of changes.hotels.slice(-MAX_RECENT)) this.#recent.push(id);
    if (this.#recent.length > MAX_RECENT) this.#recent = this.#recent.slice(-MAX_RECENT);
  }

  /** Compares some; returns what is wrong, with the truth. */
  async step(sql: Sql): Promise<Findings> {
    this.#dueAtMs = performance.now() + STEP_MS;
    const { hotels, keys } = this.#access;
    const [nextHotels, ids] = (await hotels.walk(this.#hotelCursor)) ?? ['0', []];
    const [nextKeys, sha256s] = (await keys.walk(this.#keyCursor)) ?? ['0', []];
    this.#hotelCursor = nextHotels;
    this.#keyCursor = nextKeys;

    const lookedAt = [...new Set([...ids, ...this.#suspectHotels.keys(), ...this.#recent])];
    this.#recent = [];
    const { wrong, behind } = await compareHotels(sql, hotels, lookedAt);
    // a hotel that changes all the time lacks another version at each step
    const lasting = behind.filter(([{ id }, held]) => held < (this.#suspectHotels.get(id) ?? -Infinity));
    const entries = [...wrong, ...lasting.map(([truth]) => truth)];
    this.#suspectHotels = new Map(behind.map(([{ id, version }]) => [id, version]));

    const differing = await compareKeys(sql, keys, [...new Set([...sha256s, ...this.#suspectKeys])]);
    const wrongKeys = [...differing].filter(([sha256]) => this.#suspectKeys.has(sha256));
    this.#suspectKeys = new Set(differing.keys());
    return { entries, keys: wrongKeys };
  }
}
