/** The promise where nothing is broken, in ms. */
const NORMAL_MS = 1_000;
/** The promise while something is broken and PostgreSQL can be asked, in ms. */
const DEGRADED_MS = 5_000;
/** How long after the end of a fault its bound still holds, in ms. */
const GRACE_MS = 5_000;

/** A time in which something was broken. */
export interface Disturbance {
  what: string;
  fromMs: number;
  untilMs: number;
  /** where PostgreSQL could not be asked: what was true from here on may be served */
  reachMs?: number;
}

/** How old the answers of one instance may be at each moment. Times are of `performance.now()`. */
export class Bounds {
  readonly #disturbances: Disturbance[] = [];

  /** Notes that something breaks now; `unreachable`: the instance cannot ask PostgreSQL, so it serves what it has. */
  begin(what: string, unreachable: boolean, atMs: number): Disturbance {
    const disturbance: Disturbance = { what, fromMs: atMs, untilMs: Number.POSITIVE_INFINITY };
    if (unreachable) disturbance.reachMs = this.reachOf(atMs);
    this.#disturbances.push(disturbance);
    return disturbance;
  }

  /** A disturbance that is over already. */
  note(what: string, fromMs: number, untilMs: number): void {
    this.#disturbances.push({ what, fromMs, untilMs });
  }

  /** The earliest moment whose truth may be served to a request that is sent at `sentMs`. */
  reachOf(sentMs: number): number {
    const reaches = this.#of(sentMs).map(
      ({ fromMs, reachMs }) => reachMs ?? Math.max(fromMs - NORMAL_MS, sentMs - DEGRADED_MS),
    );
    return Math.min(sentMs - NORMAL_MS, ...reaches);
  }

  /** What was broken, or just mended, at this moment. */
  describe(atMs: number): string[] {
    return this.#of(atMs).map(({ what }) => what);
  }

  #of(atMs: number): Disturbance[] {
    return this.#disturbances.filter(({ fromMs, untilMs }) => fromMs <= atMs && atMs <= untilMs + GRACE_MS);
  }
}
