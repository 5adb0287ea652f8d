/** Fewer answers than these never lie between two that close: a new connection costs about as much as four answers. */
const LEAST_ANSWERS = 100;
const MEASURE_EVERY_MS = 1_000;
/** How much of the measured rate is that of the last second. */
const NEWEST = 0.2;

interface Traffic {
  /** that are open */
  readonly connections: number;
  /** in all */
  readonly answered: number;
}

/**
 * Tells some answers to close their connection, so that connections last for a given time on the average and new
 * instances get their share. uWebSockets.js has no state for a connection that an answer could ask. Instead every n-th
 * answer of a worker closes, with n from the rate of answers and the number of connections. The busier a connection is,
 * the sooner it moves; an idle one is closed by the library.
 */
export class ConnectionTurnover {
  readonly #maxAgeS: number;
  readonly #traffic: Traffic;
  readonly #onClose: () => void;
  readonly #timer: NodeJS.Timeout | undefined;
  /** answers until the next that closes */
  #left = Infinity;
  #answered = 0;
  #answersPerS = 0;

  /** `maxAgeS`: 0 closes none. `onClose` is called for each connection that is told to close. */
  constructor(maxAgeS: number, traffic: Traffic, onClose: () => void) {
    this.#maxAgeS = maxAgeS;
    this.#traffic = traffic;
    this.#onClose = onClose;
    if (maxAgeS > 0) this.#timer = setInterval(() => this.#measure(), MEASURE_EVERY_MS).unref();
  }

  /** To be asked once for each answer: true if its connection is to be closed. */
  isDue(): boolean {
    if (--this.#left > 0) return false;
    this.#draw(this.#meanAnswers);
    this.#onClose();
    return true;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  get #meanAnswers(): number {
    return Math.max(
      LEAST_ANSWERS,
      (this.#answersPerS * this.#maxAgeS) / Math.max(1, this.#traffic.connections),
    );
  }

  #measure(): void {
    const { answered } = this.#traffic;
    this.#answersPerS += NEWEST * (answered - this.#answered - this.#answersPerS);
    this.#answered = answered;
    const mean = this.#meanAnswers;
    // not drawn anew each second, or the next that closes would never come
    if (this.#left > 1.5 * mean) this.#draw(mean);
  }

  /** Spread, so that the instances that answer alike do not close alike. */
  #draw(mean: number): void {
    this.#left = Math.ceil(mean * (0.5 + Math.random()));
  }
}
