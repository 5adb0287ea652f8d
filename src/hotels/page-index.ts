import { setTimeout as wait } from 'node:timers/promises';
import type { HotelRepository } from './repository.ts';

/** Hotels between two marks when the marks are set. */
const STRIDE = 200;
/** Marks fetched by one query while all are set anew; a query must end within its deadline. */
const MARKS_PER_QUERY = 50;
/** After a failure the marks go on being set from where they were. */
const TRY_AGAIN_MS = 250;
const MAX_FAILURES = 20;
/** Past this many stretches to count again, or this much growth of one, all marks are set anew. */
const MAX_DIRTY = 400;
const MAX_STRETCH = 20 * STRIDE;

/**
 * Where in the list a position is: marks at every 200th id or so, and how many hotels stand between two marks.
 * An insert or a delete makes the count of its stretch doubtful, and before the next use just that stretch is
 * counted again; so the answer is exact for all that was heard of, in whatever order it was heard.
 */
export class PageIndex {
  readonly #repository: HotelRepository;
  readonly #tryAgainMs: number;
  /** the first id of each stretch but the first, which begins before all ids; ordered by bytes */
  #marks: Buffer[] = [];
  #counts: number[] = [];
  readonly #dirty = new Set<number>();
  #state: 'unset' | 'setting' | 'set' = 'unset';
  /** ids that moved while the marks were being set */
  #moved: string[] = [];
  #epoch = 0;
  #recount: Promise<void> | undefined;

  constructor(origin: HotelRepository, tryAgainMs = TRY_AGAIN_MS) {
    this.#repository = origin;
    this.#tryAgainMs = tryAgainMs;
  }

  /** Sets the marks in the background where they are not set: a million hotels take some seconds. */
  prepare(): void {
    if (this.#state === 'unset') void this.#set();
  }

  /** A hotel with this id came or went. */
  moved(id: string): void {
    if (this.#state === 'setting') this.#moved.push(id);
    else if (this.#state === 'set') this.#dirty.add(this.#stretchOf(id));
  }

  /** Anything may have moved. */
  forget(): void {
    this.#epoch++;
    this.#state = 'unset';
    this.#marks = [];
    this.#dirty.clear();
    this.#moved = [];
  }

  /**
   * The mark from which to count and how many ids to pass from there to come to `offset`; a null mark is the start.
   * Undefined while the marks are being set: that goes on in the background. Throws `Unavailable`.
   */
  async locate(offset: number): Promise<{ mark: string | null; skip: number } | undefined> {
    if (this.#state === 'set' && this.#dirty.size > MAX_DIRTY) this.forget();
    this.prepare();
    if (this.#state !== 'set') return undefined;
    // twice at most: a count under way may have begun before what was heard last, the next one has not
    for (let round = 0; round < 2 && (this.#recount || this.#dirty.size > 0); round++) {
      const epoch = this.#epoch;
      this.#recount ??= this.#countDirty().finally(() => {
        this.#recount = undefined;
      });
      await this.#recount;
      if (epoch !== this.#epoch) return undefined;
    }
    let passed = 0;
    let stretch = 0;
    while (stretch < this.#marks.length && passed + this.#counts[stretch]! <= offset) {
      passed += this.#counts[stretch]!;
      stretch++;
    }
    return { mark: stretch === 0 ? null : this.#marks[stretch - 1]!.toString(), skip: offset - passed };
  }

  async #set(): Promise<void> {
    const epoch = this.#epoch;
    this.#state = 'setting';
    const marks: Buffer[] = [];
    for (let failures = 0; ; ) {
      try {
        const last = marks.at(-1)?.toString() ?? null;
        const found = await this.#repository.marksAfter(last, STRIDE, MARKS_PER_QUERY);
        if (epoch !== this.#epoch) return;
        for (const id of found) marks.push(Buffer.from(id));
        if (found.length < MARKS_PER_QUERY) break;
      } catch {
        if (epoch !== this.#epoch) return;
        if (++failures > MAX_FAILURES) return this.forget();
        await wait(this.#tryAgainMs);
      }
    }
    this.#marks = marks;
    this.#counts = new Array(marks.length + 1).fill(STRIDE);
    this.#state = 'set';
    // how many stand after the last mark is not known yet
    this.#dirty.add(marks.length);
    for (const id of this.#moved) this.moved(id);
    this.#moved = [];
  }

  async #countDirty(): Promise<void> {
    const epoch = this.#epoch;
    const stretches = [...this.#dirty];
    this.#dirty.clear();
    const markAt = (i: number) => this.#marks[i]?.toString() ?? null;
    try {
      const counts = await this.#repository.countBetween(
        stretches.map((stretch) => (stretch === 0 ? null : markAt(stretch - 1))),
        stretches.map(markAt),
      );
      if (epoch !== this.#epoch) return;
      stretches.forEach((stretch, i) => {
        this.#counts[stretch] = counts[i]!;
      });
      if (counts.some((count) => count > MAX_STRETCH)) this.forget();
    } catch (error) {
      if (epoch === this.#epoch) for (const stretch of stretches) this.#dirty.add(stretch);
      throw error;
    }
  }

  /** The number of marks that are not after the id. */
  #stretchOf(id: string): number {
    const bytes = Buffer.from(id);
    let low = 0;
    let high = this.#marks.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (Buffer.compare(this.#marks[middle]!, bytes) <= 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
