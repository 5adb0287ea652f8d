import { monotonicMs } from './clock.ts';

interface Flight<Result> {
  work: Promise<Result>;
  beganMs: number;
}

/**
 * Joins concurrent work under a key: work in flight under it is shared, not begun again. Work that began too long ago is not
 * joined: this process was stopped meanwhile, and what was read may be as old.
 */
export class SingleFlight<Result> {
  readonly #inFlight = new Map<string, Flight<Result>>();
  readonly #maxAgeMs: number;

  constructor(maxAgeMs: number) {
    this.#maxAgeMs = maxAgeMs;
  }

  get(key: string): Promise<Result> | undefined {
    const flight = this.#inFlight.get(key);
    return flight && monotonicMs() - flight.beganMs <= this.#maxAgeMs ? flight.work : undefined;
  }

  /** Shares `work` under each of the keys until it settles or is forgotten. Returns it. */
  share(keys: readonly string[], work: Promise<Result>): Promise<Result> {
    const flight = { work, beganMs: monotonicMs() };
    for (const key of keys) this.#inFlight.set(key, flight);
    const settled = () => {
      for (const key of keys) if (this.#inFlight.get(key) === flight) this.#inFlight.delete(key);
    };
    work.then(settled, settled);
    return work;
  }

  /** Makes later callers begin their own work, because the work in flight may miss a change. */
  forget(key: string): void {
    this.#inFlight.delete(key);
  }

  clear(): void {
    this.#inFlight.clear();
  }
}
