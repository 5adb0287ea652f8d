import type { HotelRepository } from '../hotels/repository.ts';
import type { LogRow } from '../log/row.ts';
import type { RedisHotelCache } from './redis-hotel-cache.ts';

/** Number of changed hotels up to which they are stored in Redis. Most of more would be evicted before their next read. */
const MAX_HOTELS = 500;

/**
 * Stores changed hotels in Redis after a change, so that a hotel in use is not loaded by every worker, and is there if
 * PostgreSQL fails right after. Nothing depends on it: a value has the label of its own read, and is compared like any other.
 */
export class Prefill {
  readonly #repository: Pick<HotelRepository, 'load'>;
  readonly #redis: RedisHotelCache;
  #running = false;
  readonly #waiting = new Set<string>();

  constructor(repository: Pick<HotelRepository, 'load'>, redis: RedisHotelCache) {
    this.#repository = repository;
    this.#redis = redis;
  }

  /** Handles rows of the log, whose transaction must be committed. Errors are ignored. */
  changed(rows: readonly LogRow[]): void {
    const ids = rows.flatMap(({ kind, ids: changed }) => (kind === 'hotels' ? changed : []));
    if (ids.length === 0 || ids.length > MAX_HOTELS) return;
    for (const id of ids) if (this.#waiting.size < MAX_HOTELS) this.#waiting.add(id);
    if (!this.#running) void this.#run();
  }

  async #run(): Promise<void> {
    this.#running = true;
    while (this.#waiting.size > 0) {
      const ids = [...this.#waiting];
      this.#waiting.clear();
      try {
        const { label, entries, isOfHistory } = await this.#repository.load('id', ids, '', null);
        if (!isOfHistory()) continue;
        const present = new Set(entries.map(({ id }) => id));
        const gone = ids.filter((id) => !present.has(id));
        if (entries.length > 0) await this.#redis.fill(entries);
        if (gone.length > 0) await this.#redis.rememberAbsent('id', gone, label);
      } catch {
        // it is loaded at its next request
      }
    }
    this.#running = false;
  }
}
