import type { Network } from './network.ts';
import type { PgCluster } from './postgres.ts';
import { entryOf, type World } from './world.ts';

/** Time after a fault, such as an outage of PostgreSQL, at which everything is answered again, and the instances are current. */
export const RETURN_MS = 2_000;

/** Deadline of queries: the default of DATABASE_TIMEOUT_MS. */
const DEADLINE_MS = 500;

interface Span {
  fromMs: number;
  untilMs: number;
}

/** When PostgreSQL could be reached from each host, and when faults disturbed it. */
export class Reach {
  readonly #world: World;
  readonly #network: Network;
  readonly #postgres: PgCluster;
  readonly #away = new Map<string, Span[]>();
  readonly #misled = new Map<string, Span[]>();
  readonly #disturbed = new Map<string, Span[]>();

  constructor(world: World, network: Network, postgres: PgCluster) {
    this.#world = world;
    this.#network = network;
    this.#postgres = postgres;
  }

  /** To be called after whatever may have changed it. */
  update(hosts: readonly string[]): void {
    const { primary } = this.#postgres;
    for (const host of hosts) {
      const { name } = primary;
      // over such a link no query is answered in time, or no connection is opened but by luck: that takes several round trips
      const isTooSlow =
        this.#network.roundTripMs(host, name) > DEADLINE_MS / 2 || primary.slowMs > 2 * DEADLINE_MS;
      const isMisled = this.#postgres.resolve('primary', host) !== primary;
      const isDown = !primary.isUp || primary.isStarting || primary.isFrozen;
      const isAway = isMisled || isDown || isTooSlow || !this.#network.isOpen(host, name);
      this.#mark(this.#misled, host, isMisled);
      if (this.#mark(this.#away, host, isAway) || isAway) this.disturb([host], 0);
    }
  }

  /** Begins or ends a span; returns whether one was open. */
  #mark(map: Map<string, Span[]>, host: string, isSo: boolean): boolean {
    const spans = this.#spansOf(map, host);
    const last = spans.at(-1);
    const wasSo = last?.untilMs === Infinity;
    if (isSo && !wasSo) spans.push({ fromMs: this.#world.nowMs, untilMs: Infinity });
    if (!isSo && wasSo) last.untilMs = this.#world.nowMs;
    return wasSo;
  }

  /** Returns since when PostgreSQL alone is away from a host, and nothing else disturbs it; Infinity: not so. */
  outageSinceMs(host: string): number {
    const [away, before] = this.#spansOf(this.#away, host).slice(-2).reverse();
    // an answer between two outages ends the first: what is of any age is served for a grace time only
    if (away && before && away.fromMs - before.untilMs < RETURN_MS) return Infinity;
    if (away?.untilMs !== Infinity || this.#spansOf(this.#misled, host).at(-1)?.untilMs === Infinity)
      return Infinity;
    // its beginning disturbs the host too
    const isAlone = this.#spansOf(this.#disturbed, host).every(({ untilMs }) => untilMs <= away.fromMs);
    return isAlone ? away.fromMs : Infinity;
  }

  /** Returns true if the address of PostgreSQL has led the host elsewhere since `atMs`, or less than this reachable time before. */
  wasMisled(host: string, atMs: number, forMs: number): boolean {
    const last = this.#spansOf(this.#misled, host).at(-1);
    return last !== undefined && (last.untilMs >= atMs || this.reachedMs(host, last.untilMs, atMs) <= forMs);
  }

  /** Notes that a fault disturbs hosts for this time. */
  disturb(hosts: readonly string[], forMs: number): void {
    const { nowMs } = this.#world;
    for (const host of hosts) {
      const spans = this.#spansOf(this.#disturbed, host);
      const last = spans.at(-1);
      if (last && last.untilMs >= nowMs) last.untilMs = Math.max(last.untilMs, nowMs + forMs);
      else spans.push({ fromMs: nowMs, untilMs: nowMs + forMs });
    }
  }

  /** Time between two moments during which PostgreSQL could be reached. */
  reachedMs(host: string, fromMs: number, untilMs: number): number {
    let sumMs = untilMs - fromMs;
    for (const away of this.#spansOf(this.#away, host))
      sumMs -= Math.max(0, Math.min(untilMs, away.untilMs) - Math.max(fromMs, away.fromMs));
    return sumMs;
  }

  /** Returns true if no fault disturbed the host from `RETURN_MS` before a time to another. */
  isQuiet(host: string, fromMs: number, untilMs: number): boolean {
    const overlaps = ({ fromMs: from, untilMs: until }: Span) =>
      from <= untilMs && until >= fromMs - RETURN_MS;
    return (
      !this.#spansOf(this.#disturbed, host).some(overlaps) && !this.#spansOf(this.#away, host).some(overlaps)
    );
  }

  #spansOf(map: Map<string, Span[]>, host: string): Span[] {
    return entryOf(map, host, () => []);
  }
}
