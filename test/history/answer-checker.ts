import { explain } from './explain.ts';
import type { Served } from './system.ts';
import { type Exchange, findViolation } from './violations.ts';

const DECIDE_EVERY_MS = 50;

/** Checks the responses of an episode, each once its history is certain. */
export class AnswerChecker {
  readonly #onWrong: (sentence: string, details: string[]) => void;
  readonly #beganMs: number;
  readonly #deciding: NodeJS.Timeout;
  /** responses received while their history was uncertain */
  #undecided: { served: Served; exchange: Exchange }[] = [];
  answers = 0;
  rejected = 0;

  constructor(onWrong: (sentence: string, details: string[]) => void, beganMs: number) {
    this.#onWrong = onWrong;
    this.#beganMs = beganMs;
    this.#deciding = setInterval(() => this.#decide(), DECIDE_EVERY_MS);
  }

  receive(served: Served, exchange: Exchange): void {
    if (served.database.isUncertain) this.#undecided.push({ served, exchange });
    else this.#check(served, exchange);
  }

  stop(): void {
    clearInterval(this.#deciding);
  }

  #decide(): void {
    const decided = this.#undecided.filter(({ served }) => !served.database.isUncertain);
    if (decided.length === 0) return;
    this.#undecided = this.#undecided.filter((one) => !decided.includes(one));
    for (const { served, exchange } of decided) this.#check(served, exchange);
  }

  #check(served: Served, exchange: Exchange): void {
    this.answers++;
    if (exchange.status === 503) this.rejected++;
    const reachMs = served.bounds.reachOf(exchange.sentMs);
    const wrong = findViolation(served.database.history, reachMs, exchange);
    if (!wrong) return;
    const details = explain(served, exchange, wrong, reachMs, this.#beganMs);
    this.#onWrong(`${served.instance.name}: ${wrong.sentence}`, details);
  }
}
