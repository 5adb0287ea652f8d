import type { FeedMessage, Numberer, Numbers, Place } from './messages.ts';

/** Numbers the messages of a term, so that whoever missed some knows whether they told anything. */
export class Numbering implements Numberer {
  readonly #term: string;
  #n = 0;
  /** the last message that told something, of this term or of one before it */
  #last: Place;
  #toldCount = 0;

  /** `before`: what `hotel_api_feed_position` holds when the term begins. */
  constructor(term: string, before: Place) {
    this.#term = term;
    this.#last = before;
  }

  /** The number of the last message; 0 before the first. */
  get n(): number {
    return this.#n;
  }

  /** What `hotel_api_feed_position` has to hold from the last message on. */
  get announcedCount(): number {
    return this.#toldCount;
  }

  next(count: number, announce: boolean): Numbers[] {
    // the first of a term covers all that those before it told
    if (announce || this.#n === 0) this.#toldCount = this.#n + count;
    return Array.from({ length: count }, () => {
      const numbers = { n: ++this.#n, w: this.#toldCount, p: this.#last };
      if (announce) this.#last = [this.#term, this.#n];
      return numbers;
    });
  }
}

/** Knows of each message that is heard whether something may have been told before it that was not; before the first it may. */
export class Continuity {
  #term = '';
  /** of the term */
  #number = 0;
  #n = 0;
  #unbroken = false;
  /** up to here all is known that was told; undefined: that is not known */
  #known: Place | undefined;

  /** False where messages may have been missed since the last, or there was none. */
  get unbroken(): boolean {
    return this.#unbroken;
  }

  /** What is said from now on, until the next message, is not heard. */
  breakOff(): void {
    this.#unbroken = false;
  }

  /** True of a message that was heard, or passed over, before: the history goes on from term to term. */
  hasReceived({ e, o, n }: FeedMessage): boolean {
    return e === this.#term ? n <= this.#n : o <= this.#number;
  }

  /** Hears the next message; false where something may have been told between the last and this one. */
  receive(message: FeedMessage): boolean {
    const { e, o, n, w, h, k, c, t, l } = message;
    const isNext = this.#unbroken && n === (e === this.#term ? this.#n + 1 : 1);
    const complete = isNext || this.#knowsAllBefore(message);
    const announces = Boolean(h ?? k ?? c ?? t ?? l);
    [this.#term, this.#number, this.#n, this.#unbroken] = [e, o, n, true];
    // of several that are sent together `w` is the last
    this.#known = [e, announces ? n : w];
    return complete;
  }

  #knowsAllBefore({ e, p }: FeedMessage): boolean {
    if (!this.#known) return false;
    const [term, n] = this.#known;
    // its term had told nothing yet, and we have heard it since it began
    if (p[0] !== e && term === e) return true;
    return p[0] === term && p[1] === n;
  }
}
