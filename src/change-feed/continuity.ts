import type { FeedMessage, MessageId } from './messages.ts';

/**
 * Decides for each received message whether announced changes may have been missed before it. Before the first
 * message they may.
 */
export class Continuity {
  #term = '';
  /** number of the term */
  #number = 0;
  #n = 0;
  /** false if messages may have been missed since the last one, or none was received */
  unbroken = false;
  /** the last announcement up to which all are received; undefined: unknown */
  #known: MessageId | undefined;

  /** Records that messages until the next received one are missed. */
  breakOff(): void {
    this.unbroken = false;
  }

  /** Returns true for a message that was already received or skipped. Terms of a history are ordered. */
  hasReceived({ e, o, n }: FeedMessage): boolean {
    return e === this.#term ? n <= this.#n : o <= this.#number;
  }

  /**
   * Records the next message. Returns false if changes may have been announced between the last message and this one.
   */
  receive(message: FeedMessage): boolean {
    const { e, o, n, w, h, k, c, t, l } = message;
    const isNext = this.unbroken && n === (e === this.#term ? this.#n + 1 : 1);
    const complete = isNext || this.#knowsAllBefore(message);
    const announces = Boolean(h ?? k ?? c ?? t ?? l);
    [this.#term, this.#number, this.#n, this.unbroken] = [e, o, n, true];
    // of messages that are sent together, `w` is the last
    this.#known = [e, announces ? n : w];
    return complete;
  }

  #knowsAllBefore({ e, p }: FeedMessage): boolean {
    if (!this.#known) return false;
    const [term, n] = this.#known;
    // the term had announced nothing yet, and was received from its beginning
    if (p[0] !== e && term === e) return true;
    return p[0] === term && p[1] === n;
  }
}
