/** Range of addresses whose parts are taken and released. The lowest free part is taken, so that few pages become resident. */
export class AddressSpace {
  readonly #start: number;
  readonly #end: number;
  /** in ascending order */
  readonly #taken: { start: number; end: number }[] = [];

  /** Takes the first address and the one behind the last. */
  constructor(start: number, end: number) {
    this.#start = start;
    this.#end = end;
  }

  /** Takes the lowest free part of this length; returns its address, or undefined if there is none. */
  take(length: number): number | undefined {
    const place = this.#taken.findIndex(({ start }, i) => start - this.#endBefore(i) >= length);
    const at = place < 0 ? this.#taken.length : place;
    const start = this.#endBefore(at);
    if (start + length > this.#end) return undefined;
    this.#taken.splice(at, 0, { start, end: start + length });
    return start;
  }

  /** Releases the part that begins at this address. */
  release(start: number): void {
    const at = this.#taken.findIndex((part) => part.start === start);
    if (at >= 0) this.#taken.splice(at, 1);
  }

  #endBefore(place: number): number {
    return this.#taken[place - 1]?.end ?? this.#start;
  }
}
