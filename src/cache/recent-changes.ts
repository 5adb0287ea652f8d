/** Minimum time for which changes are kept: longer than any load takes. */
const KEEP_MS = 30_000;
/** Maximum number of changes kept (about 60 MB). Beyond it the older half is dropped, and loads begun before are not stored. */
const MAX_KEPT = 500_000;

/**
 * Recent changes received by this process. They decide whether a load that began at some position may be stored, and
 * whether a cached version is outdated.
 */
export class RecentChanges {
  /** position to take at the start of a load */
  position = 0;
  /** loads that began before this position must not be stored */
  #floor = 0;
  #current = new Map<string, { position: number; version: number }>();
  #previous = new Map<string, { position: number; version: number }>();
  /** position of the last change before the current half */
  #currentFrom = 0;
  #rotateAtMs = performance.now() + KEEP_MS;

  get size(): number {
    return this.#current.size + this.#previous.size;
  }

  /** Notes a change of the keyed hotel; `version` is 0 if unknown. */
  note(key: string, version: number): void {
    if (this.#current.size >= MAX_KEPT / 2) this.#rotate();
    else this.forgetOld();
    const known = this.#find(key)?.version ?? 0;
    this.#current.set(key, { position: ++this.position, version: Math.max(version, known) });
  }

  /** Drops changes older than the minimum time; must be called regularly. */
  forgetOld(): void {
    if (performance.now() >= this.#rotateAtMs) this.#rotate();
  }

  /** Notes that anything may have changed. */
  noteAll(): void {
    this.#floor = ++this.position;
  }

  /** Drops all changes, because their versions are no longer valid. Loads that began before must not be stored. */
  clear(): void {
    this.noteAll();
    this.#current.clear();
    this.#previous.clear();
  }

  /** Returns true if a load of `key` that began at `position` may be stored. */
  mayStore(key: string, position: number): boolean {
    return position >= this.#floor && (this.#find(key)?.position ?? 0) <= position;
  }

  /** Returns true if a recent change of `key` is known. */
  hasChange(key: string): boolean {
    return this.size > 0 && this.#find(key) !== undefined;
  }

  /** Returns true if a newer version of `key` was received. */
  isOutdated(key: string, version: number): boolean {
    return this.size > 0 && (this.#find(key)?.version ?? 0) > version;
  }

  #rotate(): void {
    this.#floor = Math.max(this.#floor, this.#currentFrom);
    this.#currentFrom = this.position;
    this.#previous = this.#current;
    this.#current = new Map();
    this.#rotateAtMs = performance.now() + KEEP_MS;
  }

  #find(key: string): { position: number; version: number } | undefined {
    return this.#current.get(key) ?? this.#previous.get(key);
  }
}
