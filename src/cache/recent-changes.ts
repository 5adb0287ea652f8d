/** Changes are remembered at least this long: longer than any load takes. */
const REMEMBER_MS = 30_000;
/** After so many (about 60 MB) the older half goes before its time, and loads begun before them are stored nowhere. */
const MAX_REMEMBERED = 500_000;

/**
 * What this process has heard of changes lately. It answers two questions: may a load that began at some
 * position still be stored, and is a version that a cache holds older than one that was heard of.
 */
export class RecentChanges {
  #position = 0;
  /** loads that began before this position are stored under no key */
  #floor = 0;
  #young = new Map<string, { position: number; version: number }>();
  #old = new Map<string, { position: number; version: number }>();
  /** what was heard up to here is not among the young */
  #youngFrom = 0;
  #rotateAtMs = performance.now() + REMEMBER_MS;

  /** To be taken when a load begins. */
  get position(): number {
    return this.#position;
  }

  get size(): number {
    return this.#young.size + this.#old.size;
  }

  /** Hears of a change of what `key` names; `version` 0 where it carries none. */
  note(key: string, version: number): void {
    if (this.#young.size >= MAX_REMEMBERED / 2) this.#rotate();
    else this.forgetOld();
    const known = this.#find(key)?.version ?? 0;
    this.#young.set(key, { position: ++this.#position, version: Math.max(version, known) });
  }

  /** Forgets what need not be remembered any more; to be called now and then. */
  forgetOld(): void {
    if (performance.now() >= this.#rotateAtMs) this.#rotate();
  }

  /** Hears that anything may have changed. */
  noteAll(): void {
    this.#floor = ++this.#position;
  }

  /** Forgets all that was heard, as nothing of it is true any more. Loads that began before are stored under no key. */
  clear(): void {
    this.noteAll();
    this.#young.clear();
    this.#old.clear();
  }

  /** True when a load of `key` that began at `position` may be stored. */
  mayStore(key: string, position: number): boolean {
    return position >= this.#floor && (this.#find(key)?.position ?? 0) <= position;
  }

  /** True when `key` has changed lately. */
  hasChange(key: string): boolean {
    return this.size > 0 && this.#find(key) !== undefined;
  }

  /** True when a newer version of `key` than this was heard of. */
  isOutdated(key: string, version: number): boolean {
    return this.size > 0 && (this.#find(key)?.version ?? 0) > version;
  }

  #rotate(): void {
    this.#floor = Math.max(this.#floor, this.#youngFrom);
    this.#youngFrom = this.#position;
    this.#old = this.#young;
    this.#young = new Map();
    this.#rotateAtMs = performance.now() + REMEMBER_MS;
  }

  #find(key: string): { position: number; version: number } | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }
}
