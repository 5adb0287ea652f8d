import type { Sql } from 'postgres';
import { readHotels } from '../../change-feed/changed-rows.ts';

/** What an answer showed of a hotel: the tag of its ETag, null for 404. */
export type Shown = string | null;

/** What PostgreSQL has said of some hotels since it was first asked: whatever else is shown of them is older, or newer. */
export class DatabaseState {
  readonly #sql: Sql;
  readonly #said = new Map<string, Set<Shown>>();

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Reads these hotels. */
  async look(ids: string[]): Promise<void> {
    const found = await readHotels(this.#sql, ids);
    for (const id of ids) {
      const said = this.#said.get(id) ?? new Set();
      this.#said.set(id, said);
      const entry = found.get(id);
      // a key may see either view
      for (const shown of entry ? [entry.tag('full'), entry.tag('narrow')] : [null]) said.add(shown);
    }
  }

  /** Looks again where this was not said yet: the hotel may have changed since. */
  async isSo(id: string, shown: Shown): Promise<boolean> {
    if (!this.#said.get(id)?.has(shown)) await this.look([id]);
    return this.#said.get(id)!.has(shown);
  }
}
