import { random } from '../lib/clock.ts';

/**
 * Decides which responses close their connection, so that connections reach a given mean age and new instances get
 * their share. uWebSockets.js keeps no state for a connection. Therefore the number of responses that close their
 * connection in a second is the number of connections, divided by the age. A busier connection is closed sooner; the
 * library closes idle ones.
 */
export class ConnectionTurnover {
  readonly #meanAgeS: number;
  /** responses until the next that closes its connection */
  #left = Infinity;
  /** connections that may be closed now; at most those of one second */
  #credit = 0;
  #responses = 0;
  #responsesPerS = 0;

  /** `meanAgeS`: 0 closes none. */
  constructor(meanAgeS: number) {
    this.#meanAgeS = meanAgeS;
  }

  /** Returns true if the connection of the next response is to be closed. To be called once for each response. */
  isDue(): boolean {
    this.#responses++;
    if (--this.#left > 0) return false;
    this.#credit--;
    this.#draw();
    return true;
  }

  /** Measures the responses of a second. To be called once a second with the number of open connections. */
  measure(connections: number): void {
    if (this.#meanAgeS === 0) return;
    this.#responsesPerS = this.#responses;
    this.#responses = 0;
    const perSecond = connections / this.#meanAgeS;
    this.#credit = Math.min(this.#credit + perSecond, Math.max(1, perSecond));
    if (this.#left === Infinity) this.#draw();
  }

  /** Spreads the connections to be closed over the responses of a second. */
  #draw(): void {
    this.#left =
      this.#credit < 1 ? Infinity : 1 + Math.floor((random() * this.#responsesPerS) / this.#credit);
  }
}
