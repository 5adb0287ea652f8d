/** The promise where nothing is broken, in ms. */
const NORMAL_MS = 1_000;
/** The promise while something is broken and PostgreSQL can be asked, in ms. */
const DEGRADED_MS = 5_000;
/** How long after the end of a fault its bound still holds, in ms. */
const GRACE_MS = 5_000;
/** A machine that was slow so shortly before may have put off what a promise counts from. */
const SLOW_BEFORE_MS = 500;

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
  readonly #slow: { fromMs: number; untilMs: number }[] = [];

  /** Notes that something breaks now; `unreachable`: the instance cannot ask PostgreSQL, so it serves what it has. */
  begin(what: string, unreachable: boolean, atMs: number): Disturbance {
    const disturbance: Disturbance = { what, fromMs: atMs, untilMs: Number.POSITIVE_INFINITY };
    if (unreachable) disturbance.reachMs = this.reachOf(atMs);
    this.#disturbances.push(disturbance);
    return disturbance;
  }

  /** Notes that the machine did not keep up: that is a disturbance, and time that no promise counts. */
  slow(what: string, fromMs: number, untilMs: number): void {
    this.#disturbances.push({ what, fromMs, untilMs });
    const last = this.#slow.at(-1);
    const startMs = Math.max(fromMs, last?.untilMs ?? fromMs);
    if (startMs < untilMs) this.#slow.push({ fromMs: startMs, untilMs });
  }

  /** The earliest moment whose truth may be served to a request that is sent at `sentMs`. */
  reachOf(sentMs: number): number {
    const reaches = this.#of(sentMs).map(
      ({ fromMs, reachMs }) => reachMs ?? Math.max(fromMs - NORMAL_MS, sentMs - DEGRADED_MS),
    );
    const reachMs = Math.min(sentMs - NORMAL_MS, ...reaches);
    return reachMs - this.#slowWithin(reachMs - SLOW_BEFORE_MS, sentMs);
  }

  /** What was broken, or just mended, at this moment. */
  describe(atMs: number): string[] {
    return this.#of(atMs).map(({ what }) => what);
  }

  #slowWithin(fromMs: number, untilMs: number): number {
    return this.#slow.reduce(
      (sum, slow) => sum + Math.max(0, Math.min(slow.untilMs, untilMs) - Math.max(slow.fromMs, fromMs)),
      0,
    );
  }

  #of(atMs: number): Disturbance[] {
    return this.#disturbances.filter(({ fromMs, untilMs }) => fromMs <= atMs && atMs <= untilMs + GRACE_MS);
  }
}
