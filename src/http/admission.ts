import { BufferPool } from '../lib/buffer-pool.ts';
import { WaitQueue } from '../lib/wait-queue.ts';

/** How long batches may keep the event loop in one turn; whatever else came in waits this long at most. */
const SLICE_MS = 5;
/** A batch that would have to wait longer than this is refused when it comes. */
const TARGET_WAIT_MS = 150;
/**
 * One that has waited this long all the same, because what was before it got slow, is refused then; not sooner, for a
 * late answer is better than a late refusal.
 */
const MAX_WAIT_MS = 600;
/** Bodies that may wait in a line, whatever the time they would take. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;
/** Owners that are below their share may wait beyond that, though not beyond this. */
const MOST_WAITING_BYTES = 2 * MAX_WAITING_BYTES;
/** What an owner may take before it is the turn of the others: a batch of 1000. */
const QUANTUM_BYTES = 16 * 1024;
/** What a request costs beside its ids, in bytes of a body that cost as much. */
const REQUEST_BYTES = 512;
/** A batch of 1000 from the local cache. */
const FIRST_MS_PER_BYTE = 0.3 / 13_000;

/** Loads that take longer than this from their begin to their answer stand in each other's way. */
const TARGET_LOAD_MS = 30;
/** Bodies of the batches that may be loaded at once: 28 KiB are two batches of 1000, or 15 of 100. */
const MIN_LIMIT_BYTES = 28 * 1024;
const FIRST_LIMIT_BYTES = 4 * MIN_LIMIT_BYTES;
const MAX_LIMIT_BYTES = 100 * MIN_LIMIT_BYTES;
const LOWERED_TO = 0.8;
/** While loads are refused, a newcomer is looked up in the local cache when this share of those before it stood there. */
const WORTHWHILE_SHARE = 0.1;
/** Else one of so many is, to find out. */
const TRIED_ONE_OF = 16;

/** What a batch says that cannot be answered from the local cache alone when it may not wait for anything else. */
export const NEEDS_LOAD = Symbol('needs load');

/** A batch that is to be answered. */
export interface Work {
  /**
   * Answers, with the body during the call only; calls `done` once when nothing is held for the answer any more but
   * its bytes. With `mayLoad` false it may do nothing instead and return NEEDS_LOAD.
   */
  run(body: Uint8Array, mayLoad: boolean, done: () => void): typeof NEEDS_LOAD | undefined;
  reject(): void;
  /** the API key by whose share it waits */
  readonly owner: string;
  /** true when nobody waits for the answer any more */
  readonly over: boolean;
}

interface HeldWork {
  work: Work;
  body: Buffer;
}

/** Of bodies that wait, those of batches of 1000 among them. */
const pool = new BufferPool([16 * 1024, 32 * 1024], 2 * 1024 * 1024);

/**
 * Decides which batches a worker answers now, which wait and which are refused, so that it does no more than it can.
 *
 * What waits for a busy event loop waits in the kernel, where nobody sees how much it is. So a turn of the loop
 * answers batches for 5 ms at most; the others are taken in and wait here, in their order, and the loop goes on to
 * take in what came meanwhile: a refusal, a single hotel and a sign of life never wait longer than such a slice.
 * Who would wait over 150 ms is refused at once, before the body is read. The delay is the signal, not a length:
 * CoDel, RFC 8289. (CoDel drops from the head; here who is let in is answered, for what has been taken in has been
 * paid for, and who is refused is to know it soon.)
 *
 * A batch for which Redis or PostgreSQL have to be asked, or whose answer is compressed by other threads, holds a part
 * of a limit until its answer is made, and waits for that in a line of its own, so that what stands in the local cache
 * never waits for a dependency. The limit finds itself by the time this takes (AIMD, as in TCP and in Netflix'
 * "Performance Under Load", 2018): less when it took over 30 ms, a little more each time that it was used up and took
 * less.
 *
 * Both lines are shared among the keys whose batches wait: a key is refused for what waits of its own, and may take
 * all while no other key waits.
 *
 * Single hotels and pages of the list do not come here: to refuse one costs as much as to answer it from the local
 * cache, and where they have to be loaded, all of one turn are one query, which the queue for PostgreSQL bounds.
 */
export class Admission {
  /** those that wait for the event loop */
  readonly #arrived = new WaitQueue<HeldWork>(FIRST_MS_PER_BYTE, QUANTUM_BYTES);
  /** those that wait for the limit */
  readonly #toLoad = new WaitQueue<HeldWork>(FIRST_MS_PER_BYTE, QUANTUM_BYTES);
  #loadingBytes = 0;
  #limitBytes = FIRST_LIMIT_BYTES;
  #loweredAtMs = 0;
  /** of the batches lately, those that needed no load */
  #localShare = 1;
  #untried = 0;
  /** when the first batch of this turn began, if one has */
  #tickBeganMs: number | undefined;
  #armed = false;

  /** Batches that wait. */
  get waiting(): number {
    return this.#arrived.length + this.#toLoad.length;
  }

  /** True when a newcomer of this owner would be refused: it need not send its body. */
  isFull(owner: string): boolean {
    if (this.waiting === 0) return false;
    const nowMs = performance.now();
    if (isFull(this.#arrived, owner, nowMs)) return true;
    // an owner of which nothing waits may ask for what is cached, whatever others miss
    if (!this.#toLoad.has(owner) || !isFull(this.#toLoad, owner, nowMs)) return false;
    if (this.#localShare > WORTHWHILE_SHARE) return false;
    return ++this.#untried % TRIED_ONE_OF !== 0;
  }

  /** Answers a batch now, later or not at all. The body is valid during the call only. */
  enter(body: Uint8Array, work: Work): void {
    if (work.over) return;
    const nowMs = performance.now();
    if (this.#tickBeganMs === undefined) {
      this.#tickBeganMs = nowMs;
      this.#arm();
    }
    if (this.#arrived.length === 0 && nowMs - this.#tickBeganMs < SLICE_MS) this.#begin(work, body, nowMs);
    else if (isFull(this.#arrived, work.owner, nowMs)) work.reject();
    else this.#arrived.append(work.owner, { work, body: pool.copy(body) }, weightOf(body), nowMs);
  }

  /** Answers what may be answered now, and leaves what has to wait for others to be loaded. */
  #begin(work: Work, body: Uint8Array, nowMs: number): void {
    if (this.#mayLoad && this.#toLoad.length === 0) {
      this.#run(work, body, nowMs);
      return;
    }
    const isLocal = work.run(body, false, () => {}) !== NEEDS_LOAD;
    this.#note(isLocal);
    if (isLocal) return;
    if (isFull(this.#toLoad, work.owner, nowMs)) work.reject();
    else this.#toLoad.append(work.owner, { work, body: pool.copy(body) }, weightOf(body), nowMs);
  }

  get #mayLoad(): boolean {
    return this.#loadingBytes < this.#limitBytes;
  }

  /** Has the lines go on after the loop has taken in what has come. */
  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    setImmediate(this.#goOn);
  }

  readonly #goOn = (): void => {
    this.#armed = false;
    this.#tickBeganMs = undefined;
    if (this.waiting === 0) return;
    const untilMs = performance.now() + SLICE_MS;
    this.#goOnWith(this.#toLoad, untilMs);
    this.#goOnWith(this.#arrived, untilMs);
    // where the limit is what holds them up, the end of a load lets them go on
    if (this.#arrived.length > 0 || (this.#toLoad.length > 0 && this.#mayLoad)) this.#arm();
  };

  #goOnWith(line: WaitQueue<HeldWork>, untilMs: number): void {
    let nowMs = performance.now();
    while (line.length > 0 && nowMs < untilMs && (line === this.#arrived || this.#mayLoad)) {
      const { item, sinceMs } = line.shift()!;
      if (!item.work.over) {
        if (nowMs - sinceMs > MAX_WAIT_MS) item.work.reject();
        else if (line === this.#arrived) this.#begin(item.work, item.body, nowMs);
        else this.#run(item.work, item.body, nowMs);
      }
      pool.giveBack(item.body);
      nowMs = performance.now();
    }
    line.measure(nowMs);
  }

  #run(work: Work, body: Uint8Array, beganMs: number): void {
    const bytes = weightOf(body);
    this.#loadingBytes += bytes;
    let running = true;
    let done = false;
    work.run(body, true, () => {
      done = true;
      if (!running) this.#adapt(bytes, beganMs);
      this.#loadingBytes -= bytes;
      if (this.#toLoad.length > 0) this.#arm();
    });
    running = false;
    this.#note(done);
  }

  #note(isLocal: boolean): void {
    this.#localShare += 0.05 * ((isLocal ? 1 : 0) - this.#localShare);
  }

  /** Learns from a load that is over. */
  #adapt(bytes: number, beganMs: number): void {
    const nowMs = performance.now();
    if (nowMs - beganMs > TARGET_LOAD_MS) {
      // once for all that were under way together
      if (beganMs < this.#loweredAtMs) return;
      this.#loweredAtMs = nowMs;
      this.#limitBytes = Math.max(MIN_LIMIT_BYTES, LOWERED_TO * this.#limitBytes);
    } else if (2 * this.#loadingBytes > this.#limitBytes) {
      this.#limitBytes = Math.min(MAX_LIMIT_BYTES, this.#limitBytes + (bytes * bytes) / this.#limitBytes);
    }
  }
}

function isFull(line: WaitQueue<HeldWork>, owner: string, nowMs: number): boolean {
  return (
    line.isFull(owner, TARGET_WAIT_MS, nowMs) ||
    line.sizeBefore(owner) > MAX_WAITING_BYTES ||
    line.size > MOST_WAITING_BYTES
  );
}

function weightOf(body: Uint8Array): number {
  return REQUEST_BYTES + body.length;
}
