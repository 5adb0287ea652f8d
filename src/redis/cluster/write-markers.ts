import slotOf from 'cluster-key-slot';

interface WriteMarker {
  slot: number;
  /** a key that hashes to the slot */
  key: string;
  master: string | undefined;
}

interface Marking {
  marks: WriteMarker[];
  masters: string[];
}

/** Tracks the markers in a cluster, and whether they prove that no master has lost a write. */
export class WriteMarkers {
  /** by slot, the smallest number that hashes to it, as far as searched */
  readonly #tags: number[] = [];
  #nextTag = 0;
  /** places of the last markers; undefined before the first */
  #last: Set<number> | undefined;

  /**
   * Returns the next markers, and those at the places of the last markers, wherever these slots are now. The next are in
   * the lowest and the highest slot of each master, so that slots that move one by one leave one of them.
   */
  next(key: string, ends: Map<string, [lowest: number, highest: number]>, slots: string[][]): Marking {
    const wanted = new Set([...[...ends.values()].flat(), ...(this.#last ?? [])]);
    const marks = [...wanted].map((slot) => ({
      slot,
      key: `{${this.#tagOf(slot)}}${key}`,
      master: slots[slot]?.[0],
    }));
    return { marks, masters: [...ends.keys()] };
  }

  /**
   * Records that the markers were left; `kept`: for each, whether the previous one was still there. Returns whether
   * all previous markers were kept and every master has one of them. A delayed replica that replaced its master has
   * lost the marker and the writes before it. The losses of a master without a marker are unknown.
   */
  left({ marks, masters }: Marking, kept: boolean[]): boolean {
    const last = this.#last;
    const before = marks.filter(({ slot }) => !last || last.has(slot));
    this.#last = new Set(marks.map(({ slot }) => slot));
    const proven = new Set(before.map(({ master }) => master));
    return (
      marks.every((mark, i) => kept[i] || !before.includes(mark)) &&
      masters.every((master) => proven.has(master))
    );
  }

  #tagOf(slot: number): number {
    for (; this.#tags[slot] === undefined; this.#nextTag++)
      this.#tags[slotOf(`${this.#nextTag}`)] ??= this.#nextTag;
    return this.#tags[slot];
  }
}
