import { explain } from './explain.ts';
import type { Served } from './system.ts';
import { type Exchange, findViolation } from './violations.ts';

const DECIDE_EVERY_MS = 50;

/** Checks the responses of an episode, each once its history is certain, and whether the machine stalled before it. */
export class AnswerChecker {
  readonly #onWrong: (sentence: string, details: string[]) => void;
  readonly #mayHaveStalled: (served: Served, beforeMs: number) => boolean;
  readonly #isOverloadedAt: (atMs: number) => boolean;
  readonly #beganMs: number;
  readonly #deciding: NodeJS.Timeout;
  /** responses, oldest first */
  #undecided: { served: Served; exchange: Exchange }[] = [];
  answers = 0;
  rejected = 0;
  /** responses of an overloaded machine */
  unjudged = 0;

  /** `mayHaveStalled` returns true while that is unknown. */
  constructor(
    onWrong: (sentence: string, details: string[]) => void,
    mayHaveStalled: (served: Served, beforeMs: number) => boolean,
    isOverloadedAt: (atMs: number) => boolean,
    beganMs: number,
  ) {
    this.#onWrong = onWrong;
    this.#isOverloadedAt = isOverloadedAt;
    this.#mayHaveStalled = mayHaveStalled;
    this.#beganMs = beganMs;
    this.#deciding = setInterval(() => this.#decide(), DECIDE_EVERY_MS);
  }

  receive(served: Served, exchange: Exchange): void {
    this.#undecided.push({ served, exchange });
  }

  /** Returns true while a response from before this time is unchecked. */
  isBehind(atMs: number): boolean {
    return this.#undecided.some(({ exchange }) => exchange.receivedMs < atMs);
  }

  stop(): void {
    clearInterval(this.#deciding);
  }

  #decide(): void {
    const responses = this.#undecided;
    this.#undecided = [];
    for (const one of responses) {
      const { served, exchange } = one;
      if (served.database.isUncertain || this.#mayHaveStalled(served, exchange.receivedMs))
        this.#undecided.push(one);
      else this.#check(served, exchange);
    }
  }

  #check(served: Served, exchange: Exchange): void {
    if (this.#isOverloadedAt(exchange.receivedMs)) {
      this.unjudged++;
      return;
    }
    this.answers++;
    if (exchange.status === 503) this.rejected++;
    const reachMs = served.bounds.reachOf(exchange.sentMs);
    const wrong = findViolation(served.database.history, reachMs, exchange);
    if (!wrong) return;
    const details = explain(served, exchange, wrong, reachMs, this.#beganMs);
    this.#onWrong(`${served.instance.name}: ${wrong.sentence}`, details);
  }
}
