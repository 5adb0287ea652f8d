import { monotonicMs, onIteration } from './clock.ts';

interface Flight<Result> {
  /** API key whose share the work uses; undefined: it uses none */
  owner: string | undefined;
  work: Promise<Result>;
  beganMs: number;
  /** of `run`: true in the iteration in which it began, whose callers know nothing later */
  isNew: boolean;
}

/**
 * Joins concurrent work under a key: work in flight under it is shared, not begun again. Work that began too long ago is not
 * joined: this process was stopped meanwhile, and what was read may be as old.
 */
export class SingleFlight<Result> {
  readonly #inFlight = new Map<string, Flight<Result>>();
  readonly #maxAgeMs: number;
  readonly #isOfOwner: (error: unknown) => boolean;

  /** `isOfOwner` returns true for the errors of work that another API key might do: its own share is not used up. */
  constructor(maxAgeMs: number, isOfOwner: (error: unknown) => boolean = () => false) {
    this.#maxAgeMs = maxAgeMs;
    this.#isOfOwner = isOfOwner;
  }

  get(key: string): Promise<Result> | undefined {
    return this.#get(key)?.work;
  }

  /**
   * Joins the work under the key that began after `sinceMs` or in this iteration. Otherwise it begins the work by the share of this
   * API key, also if the share of another was used up.
   */
  async run(key: string, owner: string, begin: () => Promise<Result>, sinceMs = -Infinity): Promise<Result> {
    const joined = this.#get(key);
    if (!joined || (!joined.isNew && joined.beganMs < sinceMs)) {
      const flight = this.#add([key], begin(), owner);
      onIteration(() => {
        flight.isNew = false;
      });
      return flight.work;
    }
    return joined.work.catch((error) => {
      if (joined.owner === owner || !this.#isOfOwner(error)) throw error;
      return this.run(`${key} ${owner}`, owner, begin, sinceMs);
    });
  }

  /** Shares `work` under each of the keys until it settles or is forgotten. Returns it. */
  share(keys: readonly string[], work: Promise<Result>): Promise<Result> {
    return this.#add(keys, work).work;
  }

  #add(keys: readonly string[], work: Promise<Result>, owner?: string): Flight<Result> {
    const flight = { owner, work, beganMs: monotonicMs(), isNew: true };
    for (const key of keys) this.#inFlight.set(key, flight);
    const settled = () => {
      for (const key of keys) if (this.#inFlight.get(key) === flight) this.#inFlight.delete(key);
    };
    work.then(settled, settled);
    return flight;
  }

  #get(key: string): Flight<Result> | undefined {
    const flight = this.#inFlight.get(key);
    return flight && monotonicMs() - flight.beganMs <= this.#maxAgeMs ? flight : undefined;
  }

  /** Makes later callers begin their own work, because the work in flight may miss a change. */
  forget(key: string): void {
    this.#inFlight.delete(key);
  }

  clear(): void {
    this.#inFlight.clear();
  }
}
