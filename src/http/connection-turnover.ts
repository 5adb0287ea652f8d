import { clearTimer, every, random, type Timer } from '../lib/clock.ts';

const MEASURE_EVERY_MS = 1_000;

/**
 * Decides which responses close their connection, so that connections reach a given mean age and new instances get
 * their share. uWebSockets.js keeps no state for a connection. Therefore the number of responses that close their
 * connection in a second is the number of connections, divided by the age. A busier connection is closed sooner; the
 * library closes idle ones.
 */
export class ConnectionTurnover {
  readonly #maxAgeS: number;
  readonly #server: { readonly connections: number };
  readonly #pipeline: { readonly finishedCount: number };
  readonly #onClose: () => void;
  readonly #timer: Timer | undefined;
  /** responses until the next that closes its connection */
  #left = Infinity;
  /** connections that may be closed now; at most those of one second */
  #credit = 0;
  #finishedCount = 0;
  #responsesPerS = 0;

  /** `maxAgeS`: 0 closes none. `onClose` is called for each response with `Connection: close`. */
  constructor(
    maxAgeS: number,
    server: { readonly connections: number },
    pipeline: { readonly finishedCount: number },
    onClose: () => void,
  ) {
    this.#maxAgeS = maxAgeS;
    this.#server = server;
    this.#pipeline = pipeline;
    this.#onClose = onClose;
    if (maxAgeS > 0) this.#timer = every(() => this.#measure(), MEASURE_EVERY_MS).unref();
  }

  /** Returns true if the connection of the next response is to be closed. To be called once for each response. */
  isDue(): boolean {
    if (--this.#left > 0) return false;
    this.#credit--;
    this.#draw();
    this.#onClose();
    return true;
  }

  close(): void {
    clearTimer(this.#timer);
  }

  #measure(): void {
    const { finishedCount } = this.#pipeline;
    this.#responsesPerS = finishedCount - this.#finishedCount;
    this.#finishedCount = finishedCount;
    const perSecond = this.#server.connections / this.#maxAgeS;
    this.#credit = Math.min(this.#credit + perSecond, Math.max(1, perSecond));
    if (this.#left === Infinity) this.#draw();
  }

  /** Spreads the connections to be closed over the responses of a second. */
  #draw(): void {
    this.#left =
      this.#credit < 1 ? Infinity : 1 + Math.floor((random() * this.#responsesPerS) / this.#credit);
  }
}
