import slotOf from 'cluster-key-slot';

/** Where one mark is to be left. */
interface WriteMarker {
  slot: number;
  /** a key that hashes to the slot */
  key: string;
  master: string | undefined;
}

/** Marks to be left together. */
export interface Marking {
  marks: WriteMarker[];
  masters: string[];
}

/** Where the marks of a cluster stand, and whether they prove that no master has lost anything. */
export class WriteMarkers {
  /** by slot, the smallest number that hashes to it, as far as was looked for */
  readonly #tags: number[] = [];
  #nextTag = 0;
  /** where the last marks were left; undefined before the first */
  #last: Set<number> | undefined;

  /**
   * What is to be left now: a mark in the lowest and in the highest slot of each master, so that slots that move one
   * by one leave it one of the two; and one where the last were left, wherever these slots are now.
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
   * The marks have been left; `kept`: for each whether the last one was still there. Returns whether that is so of all
   * that had been left, and every master has one of them: a replica that was behind when it took its master's place has
   * lost the mark with what stood before it. What a master without a mark has lost is not known.
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
