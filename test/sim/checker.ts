import type { HotelRow } from '../../src/hotels/row.ts';
import type { Reach } from './reach.ts';
import { type ApiKey, DAY_MS, type Data, dateOf, sortedHotels } from './sequencer.ts';
import { isMember } from './statements.ts';
import type { Timeline, Truth } from './truth.ts';
import type { Host, World } from './world.ts';

/** A change is served within this time of its commit; under faults, nothing is served that was replaced longer ago. */
const BOUND_MS = 1_000;
const FAULT_BOUND_MS = 5_000;
/** Time after the return of PostgreSQL at which everything is answered again. */
const RETURN_MS = 2_000;
/** Time within which `certified` follows midnight and steps of the clock. */
const MIDNIGHT_MS = 1_100;
/** Precision of the wall clock of a process. */
const CLOCK_MS = 2;
/** Interval of src/lib/clock.ts, with some iterations. */
const WOKEN_MS = 102;
const CERTIFIED = /"certified":(true|false),/;

type Namespace = 'id' | 'channel' | 'registry';
type View = 'full' | 'narrow';

/** A request and its answer. */
export interface Asked {
  host: Host;
  what: string;
  atMs: number;
  /** what the key may see */
  rights?: string;
}

/** A promise that was broken. */
export interface Violation {
  atMs: number;
  kind: string;
  text: string;
}

/** Judges each answer by what was committed, and when. */
export class Checker {
  readonly violations: Violation[] = [];
  readonly counts = { judged: 0, hotels: 0, keys: 0, members: 0, mirrors: 0, lists: 0, refused: 0 };
  readonly #world: World;
  readonly #truth: Truth;
  readonly #reach: Reach;
  readonly clockSteps = new Map<string, number>();
  readonly #wokenMs = new Map<string, number>();

  constructor(world: World, truth: Truth, reach: Reach) {
    this.#world = world;
    this.#truth = truth;
    this.#reach = reach;
  }

  /** A machine has woken. Its processes find that out within `WOKEN_MS`; what they have read before is not judged. */
  woken(host: string): void {
    this.#wokenMs.set(host, this.#world.nowMs);
  }

  /** Notes a broken promise, unless nothing is promised to the instance that was asked. */
  violate(kind: string, text: string, asked?: Asked): void {
    if (asked && asked.atMs < (this.#wokenMs.get(asked.host.name) ?? -Infinity) + WOKEN_MS) return;
    if (asked && this.#reach.wasMisled(asked.host.name, asked.atMs, FAULT_BOUND_MS)) return;
    this.violations.push({ atMs: this.#world.nowMs, kind, text });
  }

  boundMs({ host, atMs }: Asked): number {
    return this.#reach.isQuiet(host.name, atMs - BOUND_MS, this.#world.nowMs) ? BOUND_MS : FAULT_BOUND_MS;
  }

  /** Judges a rejection with 503. */
  refused(asked: Asked, forMs = RETURN_MS): void {
    this.counts.refused++;
    if (!this.#reach.isQuiet(asked.host.name, asked.atMs, this.#world.nowMs, forMs)) return;
    this.violate('refused', `${asked.what} on ${asked.host.name} got 503 while nothing was broken`, asked);
  }

  /** Judges a rejection while PostgreSQL is away: what was served since then has to be served on. */
  refusedInOutage(asked: Asked, sha256: string, servedAtMs: number): void {
    const sinceMs = this.#reach.outageSinceMs(asked.host.name);
    const steppedMs = this.clockSteps.get(asked.host.name) ?? -Infinity;
    // a process that does not become current between a sleep and the outage serves nothing of any age
    const wokenMs = this.#wokenMs.get(asked.host.name) ?? -Infinity;
    if (servedAtMs <= sinceMs || steppedMs > sinceMs || wokenMs + RETURN_MS > sinceMs) return;
    // a key of a collection is rejected soon; the outage may have begun with another version of the database
    const keys = this.#truth.key(sha256).within(sinceMs - FAULT_BOUND_MS, this.#world.nowMs);
    if ([...keys].some(({ value }) => value?.collection !== null)) return;
    this.violate('refused', `${asked.what} on ${asked.host.name} was served in this outage before`, asked);
  }

  late(asked: Asked): void {
    if (!this.#reach.isQuiet(asked.host.name, asked.atMs, this.#world.nowMs)) return;
    this.violate(
      'late',
      `${asked.what} on ${asked.host.name} of ${asked.atMs.toFixed(0)} was not answered`,
      asked,
    );
  }

  /**
   * Returns whether a value was true between the request and its answer, or was replaced before by less than the bound. Only
   * time counts in which PostgreSQL could be reached: nobody there could see what replaced it otherwise.
   */
  #wasTrue<Value>(
    line: Timeline<Value>,
    asked: Asked,
    boundMs: number,
    is: (value: Value) => boolean,
  ): boolean {
    for (const { value, untilMs } of line.within(-Infinity, this.#world.nowMs)) {
      const agoMs = untilMs >= asked.atMs ? 0 : this.#reach.reachedMs(asked.host.name, untilMs, asked.atMs);
      if (agoMs > boundMs) return false;
      if (is(value)) return true;
    }
    return false;
  }

  /** Judges a hotel, or null for none, by one of its keys. `collection`: of the key of the request. */
  hotel(
    asked: Asked,
    namespace: Namespace,
    key: string,
    view: View,
    body: string | null,
    collection: string | null,
    kind = 'hotel',
  ): void {
    this.counts.hotels++;
    const boundMs = this.boundMs(asked);
    const line = this.#truth.hotel(namespace, key);
    const is = (row: HotelRow | null) =>
      row === null ? body === null : body !== null && isBodyOf(row, view, body);
    const isTrue = this.#wasTrue(line, asked, boundMs, is);
    if (collection === null) {
      if (!isTrue) this.#stale(kind, asked, `${namespace} ${key}`, body, boundMs, line);
    } else if (body === null) {
      // not there, or not a member
      const rows = [...line.within(-Infinity, this.#world.nowMs)].map(({ value }) => value);
      const mayBeOutside = rows.some(
        (row) =>
          row !== null &&
          this.#wasTrue(this.#truth.member(collection, row.id), asked, boundMs, (member) => !member),
      );
      if (!isTrue && !mayBeOutside)
        this.#stale(kind, asked, `${namespace} ${key} of ${collection}`, body, boundMs, line);
    } else {
      this.counts.members++;
      if (!isTrue) this.#stale(kind, asked, `${namespace} ${key} of ${collection}`, body, boundMs, line);
      const { id } = JSON.parse(body) as { id: string };
      const members = this.#truth.member(collection, id);
      // never too much: within a second even under faults, reachable or not
      const isMemberNow = [...members.within(asked.atMs - BOUND_MS, this.#world.nowMs)].some(
        ({ value }) => value,
      );
      if (!isMemberNow)
        this.#stale('outside', asked, `member ${id} of ${collection}`, 'shown', BOUND_MS, members);
    }
    if (body !== null) this.#certified(asked, body);
  }

  #certified(asked: Asked, body: string): void {
    const { certified_from, certified_until, certified } = JSON.parse(body);
    const { host } = asked;
    if (this.#isClockStepped(asked) || !this.#reach.isQuiet(host.name, asked.atMs, this.#world.nowMs)) return;
    const wallMs = host.wallMs();
    const isAt = (ms: number) => {
      const day = Math.floor(ms / DAY_MS);
      const [from, until] = [dateOf(certified_from), dateOf(certified_until)];
      return from !== null && until !== null && from <= day && day <= until;
    };
    if (isAt(wallMs) !== certified && isAt(wallMs - MIDNIGHT_MS) !== certified)
      this.violate(
        'certified',
        `${asked.what} on ${host.name}: certified ${certified}, ${certified_from} to ${certified_until}`,
      );
  }

  /** Returns whether a key may have been valid at the time of a request. */
  mayAccept(asked: Asked, key: ApiKey | null): boolean {
    if (key === null || key.revoked) return false;
    const { host, atMs } = asked;
    const wallMs = host.wallMs() - (this.#world.nowMs - atMs);
    return key.expiresAtMs === null || this.#isClockStepped(asked) || wallMs - CLOCK_MS < key.expiresAtMs;
  }

  mayReject(asked: Asked, key: ApiKey | null): boolean {
    if (key === null || key.revoked) return true;
    const isExpired = key.expiresAtMs !== null && asked.host.wallMs() + CLOCK_MS >= key.expiresAtMs;
    return isExpired || (key.expiresAtMs !== null && this.#isClockStepped(asked));
  }

  #isClockStepped({ host, atMs }: Asked): boolean {
    return atMs - (this.clockSteps.get(host.name) ?? -Infinity) < MIDNIGHT_MS;
  }

  /** Judges the rights by which a request was answered; null: it was rejected. */
  key(asked: Asked, sha256: string, is: (key: ApiKey | null) => boolean, seen: string): void {
    this.counts.keys++;
    const boundMs = this.boundMs(asked);
    const line = this.#truth.key(sha256);
    if (!this.#wasTrue(line, asked, boundMs, is))
      this.#stale('key', asked, `key ${sha256.slice(0, 6)}`, seen, boundMs, line);
  }

  /** Judges a page of the list by its ids. */
  list(asked: Asked, offset: number, limit: number, ids: string[], collection: string | null): void {
    this.counts.lists++;
    const boundMs = this.boundMs(asked);
    const lists = [...this.#tables(asked, boundMs, asked.atMs)].map((data) => idsOf(data, collection));
    const page = (all: string[]) => all.slice(offset, offset + limit).join();
    const found = ids.join();
    if (lists.some((all) => page(all) === found)) return;
    // changes meanwhile may be seen in part
    if (new Set(lists.map((all) => all.join())).size > 1) return;
    const pages = [...new Set(lists.map(page))].join(' or ');
    this.violate(
      'list',
      `${asked.what} of ${collection} on ${asked.host.name}: ${found}, not ${pages}`,
      asked,
    );
  }

  /** Tables that were true for a request between `lowMs` and now, or were replaced by less than the bound before. */
  *#tables(asked: Asked, boundMs: number, lowMs: number): Generator<Data> {
    for (const { value, untilMs } of this.#truth.tables.within(-Infinity, this.#world.nowMs)) {
      const agoMs = untilMs >= lowMs ? 0 : this.#reach.reachedMs(asked.host.name, untilMs, lowMs);
      if (agoMs > boundMs) return;
      yield value;
    }
  }

  /** Judges a whole mirror. */
  mirror(
    asked: Asked,
    name: string,
    hotels: ReadonlyMap<string, string>,
    view: View,
    collection: string | null,
  ): void {
    this.counts.mirrors++;
    const boundMs = this.boundMs(asked);
    const lowMs = Math.max(asked.atMs, this.#world.nowMs - 1_500);
    let nearest: string[] | undefined;
    for (const data of this.#tables(asked, boundMs, lowMs)) {
      const differs = differencesOf(data, hotels, view, collection);
      if (differs.length === 0) return;
      if (!nearest || differs.length < nearest.length) nearest = differs;
    }
    this.violate(
      'mirror',
      `${name} after ${asked.what} on ${asked.host.name} differs in ${nearest?.slice(0, 5).join(', ')}`,
      asked,
    );
  }

  /** Judges that a mirror that waits was told of changes in time: what it held was true until shortly before. */
  mirrorInTime(
    asked: Asked,
    name: string,
    hotels: ReadonlyMap<string, string>,
    view: View,
    collection: string | null,
  ): void {
    // it has just begun to wait: what it held was read before a pause of its own
    if (this.#world.nowMs - asked.atMs < BOUND_MS + 250) return;
    if (!this.#reach.isQuiet(asked.host.name, asked.atMs, this.#world.nowMs)) return;
    for (const data of this.#tables(asked, BOUND_MS + 250, this.#world.nowMs))
      if (differencesOf(data, hotels, view, collection).length === 0) return;
    this.violate(
      'mirror late',
      `${name} waited on ${asked.host.name} since ${asked.atMs.toFixed(0)} and was told late`,
      asked,
    );
  }

  #stale<Value>(
    kind: string,
    asked: Asked,
    name: string,
    seen: string | null,
    boundMs: number,
    line: Timeline<Value>,
  ): void {
    const spans = line.spans.slice(-6).map(({ fromMs, value }) => `${fromMs.toFixed(0)}: ${short(value)}`);
    const text = `${asked.what} on ${asked.host.name} of ${asked.atMs.toFixed(0)} showed ${name} as ${short(seen)}${asked.rights ? ` to ${asked.rights}` : ''}; bound ${boundMs}; truth ${spans.join(' | ')}`;
    this.violate(kind, text, asked);
  }
}

function short(value: unknown): string {
  if (value === null) return 'none';
  if (typeof value === 'string') {
    try {
      return short(JSON.parse(value));
    } catch {
      return value;
    }
  }
  if (typeof value !== 'object') return String(value);
  const { id, name, channel_id, scopes, revoked, collection } = value as Record<string, unknown>;
  return scopes === undefined ? `${id}/${name}/${channel_id}` : `${scopes}/${revoked}/${collection}`;
}

function idsOf(data: Data, collection: string | null): string[] {
  const hotels = sortedHotels(data);
  return (collection === null ? hotels : hotels.filter(({ id }) => isMember(data, collection, id))).map(
    ({ id }) => id,
  );
}

function differencesOf(
  data: Data,
  hotels: ReadonlyMap<string, string>,
  view: View,
  collection: string | null,
): string[] {
  const differs: string[] = [];
  let count = 0;
  for (const row of data.hotels.values()) {
    if (collection !== null && !isMember(data, collection, row.id)) continue;
    count++;
    const body = hotels.get(row.id);
    if (body === undefined || !isBodyOf(row, view, body))
      differs.push(`${row.id} (${short(body ?? null)}, not ${row.name})`);
  }
  if (hotels.size !== count || differs.length > 0)
    for (const id of hotels.keys()) {
      if (!data.hotels.has(id) || (collection !== null && !isMember(data, collection, id)))
        differs.push(`${id} (too much)`);
    }
  return differs;
}

const bodies = { full: new WeakMap<HotelRow, string>(), narrow: new WeakMap<HotelRow, string>() };

/** Returns whether a body is that of a row, whatever it says of the certification. */
function isBodyOf(row: HotelRow, view: View, body: string): boolean {
  let expected = bodies[view].get(row);
  if (expected === undefined) {
    const { images, certified_from, certified_until, certification_url, channel_id, registry_id, ...head } =
      row;
    const shown = view === 'full' && registry_id !== null ? Number(registry_id) : null;
    const tail = { certified_from, certified_until, certification_url, channel_id, registry_id: shown };
    const captions = images.map(({ url, caption }) => ({ url, caption: caption ?? null }));
    expected = JSON.stringify({ ...head, images: captions, ...tail });
    bodies[view].set(row, expected);
  }
  return body.replace(CERTIFIED, '') === expected;
}
