import { Unavailable } from '../errors.ts';
import { type IdRange, STRIDE, type Survey } from './id-list.ts';

const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** The list in PostgreSQL: a sorted array of ids. Results are taken at once and returned after their release. */
export class List {
  all: string[];
  queries = 0;
  /** maximum number of ids that a query passed */
  largestSkip = 0;
  fails = false;
  #held: PromiseWithResolvers<void> | undefined;

  constructor(ids: string[]) {
    this.all = [...new Set(ids)].sort(byBytes);
  }

  has(id: string): boolean {
    return this.all[this.#from(id)] === id;
  }

  insert(id: string): void {
    this.all.splice(this.#from(id), 0, id);
  }

  remove(id: string): void {
    this.all.splice(this.all.indexOf(id), 1);
  }

  hold(): void {
    this.#held ??= Promise.withResolvers();
  }

  letGo(): void {
    this.#held?.resolve();
    this.#held = undefined;
  }

  async ids(range: IdRange, skip: number, limit: number): Promise<string[]> {
    this.largestSkip = Math.max(this.largestSkip, skip);
    return this.#reply(this.#in(range).slice(skip, skip + limit));
  }

  async survey(ranges: readonly IdRange[], limit: number): Promise<Survey[]> {
    this.largestSkip = Math.max(this.largestSkip, limit);
    const surveyed = ranges.map((range) => {
      const found = this.#in(range).slice(0, limit);
      return { count: found.length, starts: found.filter((_, place) => place > 0 && place % STRIDE === 0) };
    });
    return this.#reply(surveyed);
  }

  #in([from, to]: IdRange): string[] {
    return this.all.slice(this.#from(from), to === null ? undefined : this.#from(to));
  }

  #from(start: string | null): number {
    if (start === null) return 0;
    let low = 0;
    let high = this.all.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (byBytes(this.all[middle]!, start) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  async #reply<T>(value: T): Promise<T> {
    this.queries++;
    await this.#held?.promise;
    if (this.fails) throw new Unavailable('unavailable', 'postgres_unavailable');
    return value;
  }
}
