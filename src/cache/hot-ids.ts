import { nextIteration, random } from '../lib/clock.ts';
import type { CacheArena } from './arena/arena.ts';
import type { RedisHotelCache } from './redis-hotel-cache.ts';

/** Number of lists in Redis. Each worker replaces one at random, so one cold worker does not spoil all. */
const LISTS = 8;
/** Maximum number of ids in a list: 300 kB. */
const MAX_IDS = 20_000;
/** Below this a worker has seen too few requests to know which ids are in use. */
const MIN_IDS = 100;
/** Slots of the index read at once: 0.3 ms of the event loop. */
const SLOTS = 4_096;

/** Saves in Redis the ids that a worker's requests hit most, for workers that start. */
export class HotIds {
  readonly #redis: RedisHotelCache;
  readonly #arena: CacheArena;

  constructor(redisCache: RedisHotelCache, arena: CacheArena) {
    this.#redis = redisCache;
    this.#arena = arena;
  }

  /** Replaces one of the lists, unless too few ids are in use. */
  async save(): Promise<void> {
    const ids = await this.#collect();
    if (ids.length < MIN_IDS) return;
    await this.#redis.storeHotIds(Math.floor(LISTS * random()), ids);
  }

  /** Returns the ids of all lists, most hits first. */
  async read(): Promise<Set<string>> {
    const lists: string[][] = [];
    for (let place = 0; place < LISTS; place++) lists.push(await this.#redis.hotIds(place));
    const ids = new Set<string>();
    for (let i = 0; i < MAX_IDS; i++) for (const list of lists) if (list[i] !== undefined) ids.add(list[i]!);
    return ids;
  }

  /** Returns a random sample of the ids in use, most hits first. */
  async #collect(): Promise<string[]> {
    const byHits: string[][] = [[], [], []];
    const parts = Math.ceil(this.#arena.slots / SLOTS);
    const start = Math.floor(parts * random());
    for (let part = 0, found = 0; part < parts && found < MAX_IDS; part++) {
      for (const { id, hits } of this.#arena.hotIds(((start + part) % parts) * SLOTS, SLOTS)) {
        byHits[3 - hits]!.push(id);
        found++;
      }
      await nextIteration();
    }
    return byHits.flat().slice(0, MAX_IDS);
  }
}
