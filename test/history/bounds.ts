/** Promise without faults, in ms. */
const NORMAL_MS = 1_000;
/** Promise during a fault while PostgreSQL is reachable, in ms. */
const DEGRADED_MS = 5_000;
/** Time after the end of a fault for which its bound still holds, in ms. */
const GRACE_MS = 5_000;
/** A stall this shortly before may have delayed the start of a promise. */
const SLOW_BEFORE_MS = 500;

/** Time span with a fault. */
interface Disturbance {
  what: string;
  fromMs: number;
  untilMs: number;
  /** if PostgreSQL was unreachable: states since then may be served */
  reachMs?: number;
}

/** Maximum age of the responses of one instance at each time. Times are of `performance.now()`. */
export class Bounds {
  readonly #disturbances: Disturbance[] = [];
  readonly #slow: { fromMs: number; untilMs: number }[] = [];

  /** Notes the start of a fault; `unreachable`: the instance cannot query PostgreSQL, so it serves its caches. */
  begin(what: string, unreachable: boolean, atMs: number): Disturbance {
    const disturbance: Disturbance = { what, fromMs: atMs, untilMs: Number.POSITIVE_INFINITY };
    if (unreachable) disturbance.reachMs = this.reachOf(atMs);
    this.#disturbances.push(disturbance);
    return disturbance;
  }

  /** Notes a stall of the machine: it counts as a fault, and no promise counts its time. */
  slow(what: string, fromMs: number, untilMs: number): void {
    this.#disturbances.push({ what, fromMs, untilMs });
    const last = this.#slow.at(-1);
    const startMs = Math.max(fromMs, last?.untilMs ?? fromMs);
    if (startMs < untilMs) this.#slow.push({ fromMs: startMs, untilMs });
  }

  /** Returns the earliest time whose state may be served to a request sent at `sentMs`. */
  reachOf(sentMs: number): number {
    const reaches = this.#of(sentMs).map(
      ({ fromMs, reachMs }) => reachMs ?? Math.max(fromMs - NORMAL_MS, sentMs - DEGRADED_MS),
    );
    const reachMs = Math.min(sentMs - NORMAL_MS, ...reaches);
    return reachMs - this.#slowWithin(reachMs - SLOW_BEFORE_MS, sentMs);
  }

  /** Returns the faults that are present or just ended at this time. */
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
