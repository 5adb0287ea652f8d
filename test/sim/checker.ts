import type { HotelRow } from '../../src/hotels/row.ts';
import { MAX_UNSENT_MS } from '../../src/http/access-control.ts';
import type { Instance } from './instance.ts';
import { RETURN_MS, type Reach } from './reach.ts';
import { type ApiKey, DAY_MS, type Data, dateOf, sortedHotels } from './sequencer.ts';
import { isSeen } from './statements.ts';
import type { Timeline, Truth } from './truth.ts';
import { entryOf, type Host, type World } from './world.ts';

/** A change is served within this time of its commit, and `certified` as of midnight or a step of the clock. */
const BOUND_MS = 1_000;
/** Under faults, nothing is served that was replaced longer ago. */
const FAULT_BOUND_MS = 5_000;
/** Precision of the wall clock of a process. */
const CLOCK_MS = 2;
/** Interval of src/lib/clock.ts, with some iterations. */
const WOKEN_MS = 102;
const CERTIFIED = /"certified":(true|false),/;

/** What a key may see: the fields of hotels, and which hotels. */
export interface Rights {
  view: 'full' | 'narrow';
  collection: string | null;
}

/** A request: which machine got it, when, and what its key may see. */
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
  readonly #uses = new Map<string, { atMs: number; untilMs: number; status: number }[]>();
  /** time of the first request of an instance for each state of its processes */
  readonly #statesSinceMs = new Map<string, number>();
  #redisFailsUntilMs = -Infinity;

  constructor(world: World, truth: Truth, reach: Reach) {
    this.#world = world;
    this.#truth = truth;
    this.#reach = reach;
  }

  /** A machine has woken. Its processes find that out within `WOKEN_MS`; what they have read before is not judged. */
  woken(host: string): void {
    this.#wokenMs.set(host, this.#world.nowMs);
  }

  /** A fault of Redis begins, which lasts so long. */
  redisFails(forMs = 0): void {
    this.#redisFailsUntilMs = Math.max(this.#redisFailsUntilMs, this.#world.nowMs + forMs);
  }

  /** Notes a broken promise, unless nothing is promised to the instance that was asked. */
  violate(kind: string, text: string, asked?: Asked): void {
    if (asked && asked.atMs < (this.#wokenMs.get(asked.host.name) ?? -Infinity) + WOKEN_MS) return;
    if (asked && this.#reach.wasMisled(asked.host.name, asked.atMs, FAULT_BOUND_MS)) return;
    this.violations.push({ atMs: this.#world.nowMs, kind, text });
  }

  boundMs({ host, atMs }: Asked): number {
    return this.#reach.isQuiet(host.name, atMs, this.#world.nowMs) ? BOUND_MS : FAULT_BOUND_MS;
  }

  /** Judges a rejection with 503; of a request for hotels, with its key, by which its response is judged again if it is late. */
  refused(asked: Asked, sha256?: string): void {
    this.counts.refused++;
    const { nowMs } = this.#world;
    const isLate = sha256 !== undefined && nowMs - asked.atMs > MAX_UNSENT_MS;
    const keys = isLate ? [...this.#truth.key(sha256).within(asked.atMs - BOUND_MS, nowMs)] : [];
    const rights = keys.map(({ value }) => `${value?.collection} ${value?.scopes}`);
    if (new Set(rights).size > 1) return;
    if (!this.#reach.isQuiet(asked.host.name, asked.atMs, nowMs)) return;
    this.violate('refused', `${asked.what} on ${asked.host.name} got 503 while nothing was broken`, asked);
  }

  /** Judges a rejection while PostgreSQL is away: what was served since then has to be served on. */
  refusedInOutage(asked: Asked, sha256: string, servedAtMs: number): void {
    const sinceMs = this.#reach.outageSinceMs(asked.host.name);
    const steppedMs = this.clockSteps.get(asked.host.name) ?? -Infinity;
    // a process that does not become current between a sleep and the outage serves nothing of any age
    const wokenMs = this.#wokenMs.get(asked.host.name) ?? -Infinity;
    if (steppedMs > sinceMs || wokenMs + RETURN_MS > sinceMs) return;
    // a request that began before may wait for a query from before the outage
    if (servedAtMs <= sinceMs || servedAtMs > asked.atMs) return;
    // what Redis alone held may be gone with it
    if (this.#redisFailsUntilMs >= servedAtMs) return;
    // a key of a collection is rejected soon; the outage may have begun with another version of the database
    const keys = this.#truth.key(sha256).within(sinceMs - FAULT_BOUND_MS, this.#world.nowMs);
    if ([...keys].some(({ value }) => value?.collection !== null)) return;
    this.violate('refused', `${asked.what} on ${asked.host.name} was served in this outage before`, asked);
  }

  late(asked: Asked): void {
    const { host, atMs, what } = asked;
    if (this.#reach.isQuiet(host.name, atMs, this.#world.nowMs))
      this.violate('late', `${what} on ${host.name} of ${atMs.toFixed(0)} was not answered`, asked);
  }

  /**
   * Values that were true between a request, or another moment, and its answer, or were replaced before by less than the bound;
   * the last first. Only time counts in which PostgreSQL could be reached: otherwise no instance could see what replaced them.
   */
  *trueFor<Value>(
    line: Timeline<Value>,
    { host, atMs }: Asked,
    boundMs: number,
    sinceMs = atMs,
  ): Generator<Value> {
    for (const { value, untilMs } of line.within(-Infinity, this.#world.nowMs)) {
      if (untilMs < sinceMs && this.#reach.reachedMs(host.name, untilMs, sinceMs) > boundMs) return;
      yield value;
    }
  }

  /** Judges a value that was seen, by whether any that was true for the request is like it. */
  #judge<Value>(
    kind: string,
    asked: Asked,
    name: string,
    seen: string | null,
    line: Timeline<Value>,
    is: (value: Value) => boolean,
  ): void {
    const boundMs = this.boundMs(asked);
    if (![...this.trueFor(line, asked, boundMs)].some(is))
      this.#stale(kind, asked, name, seen, boundMs, line);
  }

  /** Judges a hotel, or null for none, by one of its keys, such as `id h1`. */
  hotel(asked: Asked, key: string, { view, collection }: Rights, body: string | null, kind = 'hotel'): void {
    this.counts.hotels++;
    const line = this.#truth.hotel(key);
    const name = collection === null ? key : `${key} of ${collection}`;
    // not there, or not a member
    const mayBeOutside = () =>
      [...line.within(-Infinity, this.#world.nowMs)].some(
        ({ value: row }) => row !== null && this.#mayBeOutside(asked, row.id, collection!),
      );
    this.#judge(kind, asked, name, body, line, (row) =>
      body === null
        ? row === null || (collection !== null && mayBeOutside())
        : row !== null && isBodyOf(row, view, body),
    );
    if (body === null) return;
    if (collection !== null) {
      this.counts.members++;
      const { id } = JSON.parse(body) as { id: string };
      const members = this.#truth.member(collection, id);
      // never too much: within a second even under faults, reachable or not
      if (![...members.within(asked.atMs - BOUND_MS, this.#world.nowMs)].some(({ value }) => value))
        this.#stale('outside', asked, `member ${id} of ${collection}`, 'shown', BOUND_MS, members);
    }
    this.#certified(asked, body);
  }

  #mayBeOutside(asked: Asked, id: string, collection: string): boolean {
    const members = this.#truth.member(collection, id);
    return [...this.trueFor(members, asked, this.boundMs(asked))].some((isMember) => !isMember);
  }

  #certified(asked: Asked, body: string): void {
    const { certified_from, certified_until, certified } = JSON.parse(body);
    const { host } = asked;
    if (this.#isClockStepped(asked)) return;
    const wallMs = host.wallMs();
    const sinceMs = wallMs - (this.#world.nowMs - asked.atMs) - BOUND_MS;
    const isAt = (ms: number) => {
      const day = Math.floor(ms / DAY_MS);
      const [from, until] = [dateOf(certified_from), dateOf(certified_until)];
      return from !== null && until !== null && from <= day && day <= until;
    };
    if (isAt(wallMs) === certified || isAt(sinceMs) === certified) return;
    const text = `certified ${certified}, ${certified_from} to ${certified_until}`;
    this.violate('certified', `${asked.what} on ${host.name}: ${text}`, asked);
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
    return atMs - (this.clockSteps.get(host.name) ?? -Infinity) < BOUND_MS;
  }

  /** Judges the rights by which a request was answered; null: it was rejected. */
  key(asked: Asked, sha256: string, is: (key: ApiKey | null) => boolean, seen: string): void {
    this.counts.keys++;
    this.#judge('key', asked, `key ${sha256.slice(0, 6)}`, seen, this.#truth.key(sha256), is);
  }

  /** Notes a request. The result judges its status by the rate limit, which each worker may miss by one request. */
  limited(asked: Asked, sha256: string, instance: Instance): (status: number) => void {
    // an instance counts as long as all its processes run
    const stateOf = () => instance.processes.map((each) => [each.pid, each.stoodMs, each.isStopped]).join();
    const [state, { workers }] = [stateOf(), instance.options];
    const use = { atMs: asked.atMs, untilMs: Infinity, status: 0 };
    const uses = entryOf(this.#uses, `${instance.name} ${sha256}`, () => []);
    const beganMs = entryOf(this.#statesSinceMs, `${instance.name} ${state}`, () => asked.atMs);
    uses.push(use);
    const keys = this.#truth.key(sha256);
    const limitsSince = (sinceMs: number) =>
      new Set([...this.trueFor(keys, asked, FAULT_BOUND_MS, sinceMs)].map((key) => key?.limit));
    return (status) => {
      const { nowMs } = this.#world;
      Object.assign(use, { untilMs: nowMs, status });
      const isSteady = state === stateOf() && !state.includes('true');
      const mayReject = (key: ApiKey | null) => {
        if (!key?.limit) return false;
        const sinceMs = use.atMs - 1_050 * key.limit.windowS;
        // the limiter may have counted each other request; a change of the limit drops what a worker has left of it
        const used = uses.filter((each) => each.untilMs >= sinceMs && each.status !== 429).length;
        const isUsedUp = used + workers >= key.limit.requests || limitsSince(sinceMs).size > 1;
        return isUsedUp || !isSteady || sinceMs < beganMs;
      };
      if (status === 429) this.key(asked, sha256, mayReject, 'limited');
      const [limit, ...others] = limitsSince(nowMs - FAULT_BOUND_MS);
      if (!isSteady || !limit || others.length > 0) return;
      const sinceMs = Math.max(beganMs, nowMs - 950 * limit.windowS);
      const recent = uses.filter((each) => each.atMs > sinceMs);
      const admitted = recent.filter((each) => [200, 403, 404].includes(each.status));
      // judged once nothing can know another limit; the time of one window may be part of two
      if (admitted.length > 2 * limit.requests + workers)
        this.violate('limit', `${sha256.slice(0, 6)} was admitted more than twice ${limit.requests}`, asked);
    };
  }

  /** Judges a page of the list by its ids. */
  list(asked: Asked, offset: number, limit: number, ids: string[], collection: string | null): void {
    this.counts.lists++;
    const boundMs = this.boundMs(asked);
    const lists = [...this.trueFor(this.#truth.tables, asked, boundMs)].map((data) =>
      idsOf(data, collection),
    );
    const page = (all: string[]) => all.slice(offset, offset + limit).join();
    const found = ids.join();
    if (lists.some((all) => page(all) === found)) return;
    // changes meanwhile may be seen in part
    if (new Set(lists.map((all) => all.join())).size > 1) return;
    const pages = [...new Set(lists.map(page))].join(' or ');
    const text = `${asked.what} of ${collection} on ${asked.host.name}: ${found}, not ${pages}`;
    this.violate('list', text, asked);
  }

  /** Judges a whole mirror. The process that answered stood still for `stoodMs` of the time since the request. */
  mirror(
    asked: Asked,
    name: string,
    hotels: ReadonlyMap<string, string>,
    rights: Rights,
    stoodMs: number,
  ): void {
    this.counts.mirrors++;
    const sinceMs = Math.max(asked.atMs, this.#world.nowMs - stoodMs);
    let nearest: string[] | undefined;
    for (const data of this.trueFor(this.#truth.tables, asked, this.boundMs(asked), sinceMs)) {
      const differs = differencesOf(data, hotels, rights);
      if (differs.length === 0) return;
      if (!nearest || differs.length < nearest.length) nearest = differs;
    }
    const parts = nearest?.slice(0, 5).join(', ');
    this.violate('mirror', `${name} after ${asked.what} on ${asked.host.name} differs in ${parts}`, asked);
  }

  /** Judges that a mirror that waits was told of changes in time: what it held was true until shortly before. */
  mirrorInTime(asked: Asked, name: string, hotels: ReadonlyMap<string, string>, rights: Rights): void {
    const { nowMs } = this.#world;
    const { host, atMs } = asked;
    // it has just begun to wait: what it held was read before a pause of its own
    if (nowMs - atMs < BOUND_MS || !this.#reach.isQuiet(host.name, atMs, nowMs)) return;
    for (const data of this.trueFor(this.#truth.tables, asked, BOUND_MS, nowMs))
      if (differencesOf(data, hotels, rights).length === 0) return;
    const text = `${name} waited on ${host.name} since ${atMs.toFixed(0)} and was told late`;
    this.violate('mirror late', text, asked);
  }

  #stale(
    kind: string,
    asked: Asked,
    name: string,
    seen: string | null,
    boundMs: number,
    { spans }: Timeline<unknown>,
  ): void {
    const truth = spans.slice(-6).map(({ fromMs, value }) => `${fromMs.toFixed(0)}: ${short(value)}`);
    const text = `${asked.what} on ${asked.host.name} of ${asked.atMs.toFixed(0)} showed ${name} as ${short(seen)}${asked.rights ? ` to ${asked.rights}` : ''}; bound ${boundMs}; truth ${truth.join(' | ')}`;
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

const idsOf = (data: Data, collection: string | null): string[] =>
  sortedHotels(data).flatMap(({ id }) => (isSeen(data, collection, id) ? [id] : []));

function differencesOf(
  data: Data,
  hotels: ReadonlyMap<string, string>,
  { view, collection }: Rights,
): string[] {
  const differs: string[] = [];
  let count = 0;
  for (const row of data.hotels.values()) {
    if (!isSeen(data, collection, row.id)) continue;
    count++;
    const body = hotels.get(row.id);
    if (body === undefined || !isBodyOf(row, view, body))
      differs.push(`${row.id} (${short(body ?? null)}, not ${row.name})`);
  }
  if (hotels.size !== count || differs.length > 0)
    for (const id of hotels.keys())
      if (!data.hotels.has(id) || !isSeen(data, collection, id)) differs.push(`${id} (too much)`);
  return differs;
}

const bodies = { full: new WeakMap<HotelRow, string>(), narrow: new WeakMap<HotelRow, string>() };

/** Returns whether a body is that of a row, whatever it says of the certification. */
function isBodyOf(row: HotelRow, view: Rights['view'], body: string): boolean {
  const expected = entryOf(bodies[view], row, () => {
    const shown = view === 'full' && row.registry_id !== null ? Number(row.registry_id) : null;
    const images = row.images.map(({ url, caption }) => ({ url, caption: caption ?? null }));
    return JSON.stringify({ ...row, images, registry_id: shown });
  });
  return body.replace(CERTIFIED, '') === expected;
}
