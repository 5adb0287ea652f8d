import { Unavailable } from '../errors.ts';

const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** The list in PostgreSQL: a sorted array of ids. Results are taken at once and returned after their release. */
export class List {
  ids: string[];
  queries = 0;
  /** maximum number of ids that a query passed */
  largestSkip = 0;
  fails = false;
  #held: PromiseWithResolvers<void> | undefined;

  constructor(ids: string[]) {
    this.ids = [...new Set(ids)].sort(byBytes);
  }

  has(id: string): boolean {
    return this.ids[this.#from(id)] === id;
  }

  insert(id: string): void {
    this.ids.splice(this.#from(id), 0, id);
  }

  remove(id: string): void {
    this.ids.splice(this.ids.indexOf(id), 1);
  }

  hold(): void {
    this.#held ??= Promise.withResolvers();
  }

  letGo(): void {
    this.#held?.resolve();
    this.#held = undefined;
  }

  async idsFrom(start: string | null, skip: number, limit: number): Promise<string[]> {
    this.largestSkip = Math.max(this.largestSkip, skip);
    const from = this.#from(start) + skip;
    return this.#reply(this.ids.slice(from, from + limit));
  }

  async startsAfter(start: string | null, stride: number, limit: number): Promise<string[]> {
    const starts: string[] = [];
    for (let at = this.#from(start) + stride; at < this.ids.length && starts.length < limit; at += stride) {
      starts.push(this.ids[at]!);
    }
    this.largestSkip = Math.max(this.largestSkip, stride);
    return this.#reply(starts);
  }

  async idsBetween(from: string | null, to: string | null, limit: number, _owner: string): Promise<string[]> {
    return this.#reply(this.#between(from, to).slice(0, limit));
  }

  async countBetween(from: (string | null)[], to: (string | null)[], limit: number): Promise<number[]> {
    return this.#reply(from.map((lower, i) => Math.min(limit, this.#between(lower, to[i]!).length)));
  }

  #between(from: string | null, to: string | null): string[] {
    return this.ids.slice(this.#from(from), to === null ? undefined : this.#from(to));
  }

  #from(start: string | null): number {
    if (start === null) return 0;
    let low = 0;
    let high = this.ids.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (byBytes(this.ids[middle]!, start) < 0) low = middle + 1;
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
