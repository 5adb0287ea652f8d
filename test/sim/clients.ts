import { hashOf } from '../../src/auth/key.ts';
import type { Asked, Rights } from './checker.ts';
import type { Episode } from './episode.ts';
import { type HttpAnswer, type HttpRequest, request } from './http.ts';
import type { Instance, Worker } from './instance.ts';
import type { Random } from './random.ts';
import type { ApiKey } from './sequencer.ts';
import { keyNumber } from './writes.ts';

/** A request without an answer after this time is judged. */
const ANSWERED_WITHIN_MS = 3_000;
const STARTS_MS = 2_500;

type Namespace = 'id' | 'channel' | 'registry';
type Key = { key: string; sha256: string };

/** What a request asks for: a hotel, a batch, or a page of the list. */
interface Wanted {
  namespace: Namespace;
  keys: string[];
  isBatch?: boolean;
  page?: { offset: number; limit: number };
}

/** The n-th id. */
const NTH: Record<Namespace, (n: number) => string> = {
  id: (n) => `h${n}`,
  channel: (n) => `c${n}`,
  registry: (n) => `${1_000 + n}`,
};
const SINGLE = { id: 'hotel', channel: 'hotel_by_channel', registry: 'hotel_by_registry' } as const;

/** Returns a request as it is named in traces, and as it is sent. */
function httpOf({ namespace, keys, isBatch, page }: Wanted): [string, Omit<HttpRequest, 'key'>] {
  if (page) {
    const query = `limit=${page.limit}&offset=${page.offset}`;
    return [`list ${query}`, { route: 'list', query }];
  }
  if (!isBatch) {
    const [parameter] = keys as [string];
    const name = namespace === 'id' ? 'hotel' : namespace;
    return [`${name} ${parameter}`, { route: SINGLE[namespace], parameter }];
  }
  const [route, value] =
    namespace === 'channel'
      ? (['batch_by_channel', { channel_ids: keys }] as const)
      : (['batch_by_registry', { registry_ids: keys.map(Number) }] as const);
  return [`batch ${keys.join()}`, { route, body: JSON.stringify(value) }];
}

/** Clients of all instances: readers of all kinds, and mirrors. */
export class Clients {
  readonly #episode: Episode;
  readonly #keys: Key[];
  /** when a worker last served something to a key */
  readonly #served = new Map<string, number>();

  constructor(episode: Episode) {
    this.#episode = episode;
    const keys = Array.from({ length: episode.names.keys + 1 }, (_, n) => keyNumber(n));
    this.#keys = keys.map((key) => ({ key, sha256: hashOf(key) }));
  }

  start(untilMs: number): void {
    const { world, instances } = this.#episode;
    for (const instance of instances) {
      const random = world.randomOf(`clients of ${instance.name}`);
      const gapMs = random.pick([12, 40, 120]);
      const next = () => {
        this.#read(instance, random);
        const pauseMs = this.#episode.pace * random.between(0.1, 2) * gapMs;
        if (world.nowMs < untilMs) world.after(Math.min(pauseMs, 3_000), next);
      };
      world.after(STARTS_MS, next);
    }
    const mirrors = world.randomOf('mirrors');
    for (let n = 0; n < 3; n++) {
      const mirror = new Mirror(this.#episode, `mirror ${n}`, this.#keys[n]!, mirrors);
      world.after(STARTS_MS + 500 * n, () => mirror.next());
    }
  }

  /** Reads a hotel at every worker. */
  readAt(id: string): void {
    for (const { ready } of this.#episode.instances)
      for (const worker of ready) this.#ask(worker, this.#keys[0]!, { namespace: 'id', keys: [id] });
  }

  /** Reads a hotel at every worker of an instance that nobody judges. */
  visit(instance: Instance, id: string): void {
    for (const worker of instance.ready)
      request(worker, { route: 'hotel', parameter: id, key: this.#keys[0]!.key }, () => {});
  }

  #read(instance: Instance, random: Random): void {
    const worker = random.pick(instance.ready);
    if (!worker) return;
    const { names, checker } = this.#episode;
    const key = random.chance(0.6) ? this.#keys[0]! : random.pick(this.#keys);
    const n = () => Math.floor((names.hotels + 1) * random.next() ** 1.5);
    const what = random.next();
    if (what < 0.55) {
      const namespace = what < 0.3 ? 'id' : what < 0.45 ? 'channel' : 'registry';
      this.#ask(worker, key, { namespace, keys: [NTH[namespace](n())] });
    } else if (what < 0.85) {
      const namespace = random.chance(0.6) ? 'channel' : 'registry';
      const count = random.chance(0.8) ? random.whole(1, 10) : names.hotels;
      const keys = [...new Set(Array.from({ length: count }, () => NTH[namespace](n())))];
      this.#ask(worker, key, { namespace, keys, isBatch: true });
    } else {
      const limit = random.whole(1, 20);
      this.#ask(worker, key, {
        ...{ namespace: 'id', keys: [] },
        page: { limit, offset: random.chance(0.5) ? 0 : random.whole(0, names.hotels) },
      });
    }
    checker.counts.judged++;
  }

  #ask(worker: Worker, { key, sha256 }: Key, wanted: Wanted): void {
    const { world, checker } = this.#episode;
    const [what, http] = httpOf(wanted);
    const asked: Asked = { host: worker.instance.host, what, atMs: world.nowMs };
    const judgeLimit = checker.limited(asked, sha256, worker.instance);
    let isOver = false;
    request(worker, { ...http, key }, (answer) => {
      judgeLimit(answer.status);
      if (isOver) return;
      isOver = true;
      world.trace(`${worker.process.name} ${what}: ${answer.status} ${answer.body.length}`);
      this.#judge(asked, sha256, wanted, answer);
      if (http.route === 'hotel') this.#judgeOutage(worker, asked, sha256, answer);
    });
    world.after(ANSWERED_WITHIN_MS, () => {
      if (isOver || worker.process.isDead) return;
      isOver = true;
      checker.late(asked);
    });
  }

  #judgeOutage({ process, instance }: Worker, asked: Asked, sha256: string, { status }: HttpAnswer): void {
    const { checker, world } = this.#episode;
    if (instance.options.localBytes === 0) return;
    const what = `${process.pid} ${sha256} ${asked.what}`;
    if (status === 200) this.#served.set(what, world.nowMs);
    if (status === 503) checker.refusedInOutage(asked, sha256, this.#served.get(what) ?? -Infinity);
  }

  #judge(asked: Asked, sha256: string, wanted: Wanted, { status, body }: HttpAnswer): void {
    const { checker } = this.#episode;
    const isValid = (key: ApiKey | null) => checker.mayAccept(asked, key);
    const isNarrow = (key: ApiKey | null) => isValid(key) && key!.scopes.length === 0;
    if (status === 503) checker.refused(asked, sha256);
    else if (status === 401) checker.key(asked, sha256, (key) => checker.mayReject(asked, key), 'rejected');
    else if (status === 403) checker.key(asked, sha256, isNarrow, 'forbidden');
    else if (![200, 404, 429].includes(status)) checker.violate('status', `${asked.what}: ${status} ${body}`);
    else if (status !== 429) this.#judgeRights(asked, sha256, wanted, status === 404 ? null : body);
  }

  #judgeRights(asked: Asked, sha256: string, wanted: Wanted, body: string | null): void {
    const { checker } = this.#episode;
    const needsRegistry = wanted.namespace === 'registry';
    // the rights by which it was answered are those of a moment; they decide what may be shown
    const rights = this.#rightsOf(asked, sha256, needsRegistry);
    if (rights.length === 0) {
      const isRight = (key: ApiKey | null) =>
        checker.mayAccept(asked, key) && (!needsRegistry || key!.scopes.length > 0);
      checker.key(asked, sha256, isRight, body === null ? '404' : '200');
    }
    // an answer that any of them explains is right; mostly there is one
    const before = checker.violations.length;
    for (const [i, each] of rights.entries()) {
      const trial = checker.violations.length;
      const by = { ...asked, rights: `${each.view} of ${each.collection}, key ${sha256.slice(0, 6)}` };
      this.#judgeBody(by, wanted, body, each);
      if (checker.violations.length === trial) {
        checker.violations.length = before;
        return;
      }
      if (i < rights.length - 1) checker.violations.length = trial;
    }
  }

  /** `body`: null for 404. */
  #judgeBody(asked: Asked, wanted: Wanted, body: string | null, rights: Rights) {
    const { namespace, keys, isBatch, page } = wanted;
    const { checker } = this.#episode;
    if (!page && !isBatch) return checker.hotel(asked, `${namespace} ${keys[0]}`, rights, body);
    type Hotel = { id: string; channel_id: string | null; registry_id: number | null };
    const hotels = JSON.parse(body!) as Hotel[];
    if (page) {
      const ids = hotels.map(({ id }) => id);
      checker.list(asked, page.offset, page.limit, ids, rights.collection);
      for (const hotel of hotels)
        checker.hotel(asked, `id ${hotel.id}`, rights, JSON.stringify(hotel), 'hotel in list');
      return;
    }
    const byKey = new Map(
      hotels.map((hotel) => [namespace === 'channel' ? hotel.channel_id : String(hotel.registry_id), hotel]),
    );
    for (const key of keys) {
      const hotel = byKey.get(key);
      const found = hotel ? JSON.stringify(hotel) : null;
      checker.hotel(asked, `${namespace} ${key}`, rights, found, 'hotel in batch');
      byKey.delete(key);
    }
    if (byKey.size > 0)
      checker.violate('batch', `${asked.what} got hotels of other keys: ${[...byKey.keys()]}`);
  }

  /** Returns the rights that the key may have had for this request. */
  #rightsOf(asked: Asked, sha256: string, needsRegistry: boolean): Rights[] {
    const { checker, truth } = this.#episode;
    const found = new Map<string, Rights>();
    for (const key of checker.trueFor(truth.key(sha256), asked, checker.boundMs(asked))) {
      if (!checker.mayAccept(asked, key) || (needsRegistry && key!.scopes.length === 0)) continue;
      const rights: Rights = {
        view: key!.scopes.length > 0 ? 'full' : 'narrow',
        collection: key!.collection,
      };
      found.set(JSON.stringify(rights), rights);
    }
    return [...found.values()];
  }
}

/** A client that keeps a copy of the hotels that its key may see. */
class Mirror {
  readonly #episode: Episode;
  readonly #name: string;
  readonly #key: Key;
  readonly #random: Random;
  readonly #hotels = new Map<string, string>();
  #token: string | undefined;
  #isWhole = false;
  #beganMs = 0;

  constructor(episode: Episode, name: string, key: Key, random: Random) {
    this.#episode = episode;
    this.#name = name;
    this.#key = key;
    this.#random = random;
  }

  #begin(): void {
    this.#beganMs = this.#episode.world.nowMs;
    this.#token = undefined;
    this.#isWhole = false;
    this.#hotels.clear();
  }

  next() {
    const { world, instances } = this.#episode;
    const random = this.#random;
    const instance = random.pick(instances);
    const worker = random.pick(instance.ready);
    if (!worker) return world.after(200, () => this.next());
    const waitS = random.pick([0, 1, 10, 30]);
    const limit = random.pick([1, 3, 1000]);
    const query = `${this.#token ? `after=${this.#token}&` : ''}limit=${limit}&wait=${waitS}`;
    const what = `changes limit=${limit} wait=${waitS}`;
    const asked: Asked = { host: instance.host, what, atMs: world.nowMs };
    // it waits from when it is read, by the clock of the machine, which stands still while that sleeps
    let dueMs = Infinity;
    worker.process.receive(() => {
      dueMs = asked.host.monotonicMs() + 1_000 * waitS + ANSWERED_WITHIN_MS;
    });
    let isOver = false;
    const stoodBeforeMs = worker.process.stoodMs;
    request(worker, { route: 'changes', query, key: this.#key.key }, (answer) => {
      if (isOver) return;
      isOver = true;
      world.trace(`${worker.process.name} ${this.#name} ${what}: ${answer.status} ${answer.body.length}`);
      this.#take(asked, answer, waitS, worker.process.stoodMs - stoodBeforeMs);
    });
    const watch = () => {
      if (isOver) return;
      const isLate = asked.host.monotonicMs() > dueMs;
      if (!worker.process.isDead && !isLate) return world.after(500, watch);
      isOver = true;
      if (isLate && !worker.process.isDead)
        this.#episode.checker.late({ ...asked, atMs: world.nowMs - ANSWERED_WITHIN_MS });
      this.next();
    };
    watch();
  }

  #take(asked: Asked, { status, body }: HttpAnswer, waitS: number, stoodMs: number) {
    const { world, checker, truth } = this.#episode;
    const again = (delayMs: number) => world.after(delayMs, () => this.next());
    // what it waited for may have changed since it asked, or while the process that answered stood still
    const inTime = { ...asked, atMs: Math.max(asked.atMs, world.nowMs - stoodMs) };
    if (status === 410 || this.#beganMs <= this.#episode.mirrorsBeginMs) {
      this.#begin();
      return again(1);
    }
    if (status === 503) {
      checker.refused(inTime);
      return again(300);
    }
    if (status !== 200) {
      const isRight = (key: ApiKey | null) => checker.mayReject(asked, key);
      if (status === 401) checker.key(inTime, this.#key.sha256, isRight, 'rejected');
      else checker.violate('status', `${asked.what}: ${status} ${body}`);
      return again(500);
    }
    const page = JSON.parse(body) as {
      changes: { id: string; hotel: object | null }[];
      next: string;
      more: boolean;
    };
    // the token says what the key could see when the page was made
    const token = Buffer.from(page.next.slice(8), 'base64url').toString();
    const [, , , , viewNumber, , collection] = JSON.parse(token);
    const view = viewNumber === 0 ? 'full' : 'narrow';
    const isRight = (key: ApiKey | null) =>
      checker.mayAccept(inTime, key) &&
      key!.collection === collection &&
      key!.scopes.length > 0 === (view === 'full');
    checker.key(inTime, this.#key.sha256, isRight, `${view} of ${collection}`);
    const keyLine = [...truth.key(this.#key.sha256).within(asked.atMs - 6_000, world.nowMs)];
    if (waitS > 0 && this.#isWhole && page.changes.length > 0 && keyLine.length === 1)
      checker.mirrorInTime(asked, this.#name, this.#hotels, { view, collection });
    for (const { id, hotel } of page.changes) {
      if (hotel) this.#hotels.set(id, JSON.stringify(hotel));
      else this.#hotels.delete(id);
    }
    this.#token = page.next;
    this.#isWhole = !page.more;
    if (world.lines) {
      const changed = page.changes.map(({ id, hotel }) => `${id}${hotel ? '' : ' gone'}`);
      world.trace(`${this.#name}: ${token} ${changed} more ${page.more}`);
    }
    if (!page.more) checker.mirror(asked, this.#name, this.#hotels, { view, collection }, stoodMs);
    if (checker.violations.length > 20) return;
    // an empty page ends the wait; mirrors ask again at once
    if (this.#random.chance(0.005)) this.#begin();
    again(page.more ? 1 : this.#episode.pace * this.#random.between(1, 400));
  }
}
