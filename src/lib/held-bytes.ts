/** Counts the bytes that are held for owners, and finds the owner with the most. */
export class HeldBytes<Holder> {
  readonly #held = new Map<Holder, { owner: string; bytes: number }>();
  /** holders in order of arrival */
  readonly #owners = new Map<string, { bytes: number; holders: Set<Holder> }>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** Returns the bytes that are held for an owner. */
  bytesOf(owner: string): number {
    return this.#owners.get(owner)?.bytes ?? 0;
  }

  /** Sets the bytes of a holder. It keeps its place in the order as long as it has the same owner. */
  set(holder: Holder, owner: string, bytes: number): void {
    const before = this.#held.get(holder);
    if (before && before.owner !== owner) this.delete(holder);
    const grown = bytes - (this.#held.get(holder)?.bytes ?? 0);
    this.#held.set(holder, { owner, bytes });
    const share = this.#owners.get(owner) ?? { bytes: 0, holders: new Set() };
    share.holders.add(holder);
    share.bytes += grown;
    this.#total += grown;
    this.#owners.set(owner, share);
  }

  /** Removes a holder, if it holds any. */
  delete(holder: Holder): void {
    const held = this.#held.get(holder);
    if (!held) return;
    this.#held.delete(holder);
    this.#total -= held.bytes;
    const share = this.#owners.get(held.owner)!;
    share.bytes -= held.bytes;
    share.holders.delete(holder);
    if (share.holders.size === 0) this.#owners.delete(held.owner);
  }

  /** Returns the first holder of the owner that has the most bytes; undefined if there is none. */
  firstOfLargest(): Holder | undefined {
    let largest: { bytes: number; holders: Set<Holder> } | undefined;
    for (const share of this.#owners.values()) if (!largest || share.bytes > largest.bytes) largest = share;
    return largest?.holders.values().next().value;
  }
}
