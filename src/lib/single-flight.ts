/** Joins concurrent work under a key: work in flight under it is shared, not begun again. */
export class SingleFlight<Result> {
  readonly #inFlight = new Map<string, Promise<Result>>();

  get(key: string): Promise<Result> | undefined {
    return this.#inFlight.get(key);
  }

  /** Shares `work` under each of the keys until it settles or is forgotten. Returns it. */
  share(keys: readonly string[], work: Promise<Result>): Promise<Result> {
    for (const key of keys) this.#inFlight.set(key, work);
    const settled = () => {
      for (const key of keys) if (this.#inFlight.get(key) === work) this.#inFlight.delete(key);
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
