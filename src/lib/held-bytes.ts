/** Counts the bytes that are held for owners, so that the one with the most can be asked to give some back. */
export class HeldBytes<Holder> {
  /** holders in order of arrival */
  readonly #owners = new Map<string, { bytes: number; holders: Map<Holder, number> }>();
  readonly #ownerOf = new Map<Holder, string>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  /** Sets the bytes of a holder; 0 removes it. It keeps its place in the order as long as it has the same owner. */
  set(holder: Holder, owner: string, bytes: number): void {
    const before = this.#ownerOf.get(holder);
    if (before !== undefined && (before !== owner || bytes === 0)) this.#remove(holder, before);
    if (bytes === 0) return;
    const of = this.#owners.get(owner) ?? { bytes: 0, holders: new Map() };
    const grown = bytes - (of.holders.get(holder) ?? 0);
    of.holders.set(holder, bytes);
    of.bytes += grown;
    this.#total += grown;
    this.#owners.set(owner, of);
    this.#ownerOf.set(holder, owner);
  }

  /** Returns the first holder of the owner that has the most bytes; undefined if there is none. */
  firstOfLargest(): Holder | undefined {
    let largest: { bytes: number; holders: Map<Holder, number> } | undefined;
    for (const of of this.#owners.values()) if (!largest || of.bytes > largest.bytes) largest = of;
    return largest?.holders.keys().next().value;
  }

  #remove(holder: Holder, owner: string): void {
    const of = this.#owners.get(owner)!;
    const bytes = of.holders.get(holder)!;
    of.holders.delete(holder);
    of.bytes -= bytes;
    this.#total -= bytes;
    this.#ownerOf.delete(holder);
    if (of.holders.size === 0) this.#owners.delete(owner);
  }
}
