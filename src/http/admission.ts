import { type HotelSizes, pagesOf } from '../hotels/hotel-sizes.ts';
import { BufferPool } from '../lib/buffer-pool.ts';
import { monotonicMs } from '../lib/clock.ts';
import { type EventLoop, FIRST_MS_PER_BYTE, QUANTUM_BYTES } from '../lib/event-loop.ts';
import { HeldBytes } from '../lib/held-bytes.ts';
import { WaitQueue } from '../lib/wait-queue.ts';
import type { Client } from './transfers.ts';

/** A batch whose estimated wait exceeds this is rejected immediately. */
const TARGET_WAIT_MS = 150;
/**
 * A batch that has waited this long, because earlier ones became slower, is rejected then. A late response is better
 * than a late rejection, so the bound is not lower.
 */
const MAX_WAIT_MS = 600;
/** Maximum number of bytes of waiting bodies, whatever time they would take. */
const MAX_WAITING_BYTES = 64 * 1024 * 1024;
/** Owner of the work that continues batches at the limit, which the batches' own owners share. */
const LOADS = 'loads';

/** Loads that take longer than this from start to response slow each other down. */
const TARGET_LOAD_MS = 30;
/** Limit of bytes of bodies whose batches load at once for one API key: 28 KiB are two batches of 1000, or 15 of 100. */
const MIN_LIMIT_BYTES = 28 * 1024;
const FIRST_LIMIT_BYTES = 4 * MIN_LIMIT_BYTES;
const MAX_LIMIT_BYTES = 100 * MIN_LIMIT_BYTES;
const LOWERED_TO = 0.8;
/** Multiple of the limit that the loads of all API keys may take together. Those of one key take the limit at most. */
const LIMITS_OF_ALL = 2;

/** Weight of a request besides its ids, as bytes of a body that cost as much. */
const REQUEST_BYTES = 512;

/** Result of a batch that needs a load but may not wait for one. */
export const NEEDS_LOAD = Symbol('needs load');

/** Result of answering from the local cache alone, or with loads. */
export type Pending = void | typeof NEEDS_LOAD | Promise<void>;

/** A batch, or a page of the list, to be answered. */
export interface Work {
  /**
   * Answers the batch. The body is valid during the call only. `done` is called once when nothing but the response
   * bytes is held. With `mayLoad` false it may do nothing and return NEEDS_LOAD.
   */
  run(body: Uint8Array, mayLoad: boolean, done: () => void): typeof NEEDS_LOAD | undefined;
  /** undefined for a page of the list: it holds nothing while it waits, and is never rejected */
  readonly reject: (() => void) | undefined;
  /** length of the body; of a page that of a batch of as many hotels */
  readonly bytes: number;
  readonly client: Client;
}

interface QueuedWork {
  work: Work;
  body: Buffer;
}

/** Buffers of waiting bodies, sized for batches of 1000 too. */
const pool = new BufferPool([16 * 1024, 32 * 1024], 2 * 1024 * 1024);

/**
 * Decides which batches a worker answers now, which wait, and which are rejected, so that the worker accepts no more
 * than it can do. Unread requests wait in the kernel, where their number is unknown. Therefore an event-loop
 * iteration answers batches within its budget. The other batches are read and wait here, so a rejection or a single
 * hotel never waits longer than that.
 *
 * A batch that would wait over 150 ms is rejected, before its body is read if that is known then. The delay is the signal, not
 * a length, as in CoDel (RFC 8289). CoDel drops from the head; here an accepted batch is answered, because its cost is already
 * paid. One that would wait so long for a load is rejected when the local cache has been looked up, or at once to be compressed.
 *
 * A batch that needs Redis, PostgreSQL or compression takes part of a limit until its response is made. It waits for that
 * in a queue of its own, so locally cached batches without compression never wait for a dependency. The limit adapts to the
 * load time (AIMD, as in TCP and in Netflix, "Performance Under Load", 2018). It falls after a load of over 30 ms and rises
 * slightly after faster ones. Sizes are those of bodies, times the size of their keys' hotels, so the limit bounds the
 * bytes of responses that are made at once. One key may take one limit, and all together two: a key whose loads wait for one
 * another leaves room for the others.
 *
 * Pages of the list wait like batches of as many hotels, but are not rejected: they hold nothing while they wait. Single hotels
 * are not queued, because the loads of one iteration are joined.
 *
 * API keys share both queues fairly. A key is rejected because of its own waiting batches and the turns of other keys that
 * wait, and may use everything while no other key waits.
 */
export class Admission {
  readonly #eventLoop: EventLoop;
  /** number of batches that wait for the event loop */
  #arrived = 0;
  #waitingBytes = 0;
  /** batches that wait for the limit */
  readonly #toLoad = new WaitQueue<QueuedWork>(FIRST_MS_PER_BYTE, QUANTUM_BYTES);
  readonly #loading = new HeldBytes<Work>();
  #limitBytes = FIRST_LIMIT_BYTES;
  #loweredAtMs = 0;
  #isContinuing = false;
  readonly #sizes: HotelSizes;

  constructor(eventLoop: EventLoop, sizes: HotelSizes) {
    this.#eventLoop = eventLoop;
    this.#sizes = sizes;
  }

  get waiting(): number {
    return this.#arrived + this.#toLoad.length;
  }

  /** Returns true if a new batch of this owner would be rejected, whatever it requests. Its body need not be read. */
  isFull(owner: string): boolean {
    return this.waiting > 0 && this.#isFull(this.#eventLoop.waiting, owner, monotonicMs());
  }

  /** Answers a batch now or later, or rejects it. The body is valid during the call only. */
  enter(body: Uint8Array, work: Work): void {
    if (work.client.over) return;
    const nowMs = monotonicMs();
    if (this.#eventLoop.hasTime(nowMs)) this.#begin(work, body, nowMs);
    else if (work.reject && this.#isFull(this.#eventLoop.waiting, work.client.owner, nowMs)) work.reject();
    else {
      const kept = this.#keep(body);
      const begin = (atMs: number) => {
        this.#arrived--;
        if (isInTime(work, atMs - nowMs)) this.#begin(work, kept, atMs);
        this.#release(kept);
      };
      this.#arrived++;
      this.#eventLoop.append(work.client.owner, this.#weightOf(work), begin, nowMs);
    }
  }

  /** Answers what may be answered now, and queues batches that need a load. */
  #begin(work: Work, body: Uint8Array, nowMs: number): void {
    const { owner } = work.client;
    if (!this.#toLoad.has(owner) && this.#mayLoad(owner)) {
      this.#run(work, body, nowMs);
      return;
    }
    if (work.run(body, false, () => {}) !== NEEDS_LOAD) return;
    if (work.reject && this.#isFull(this.#toLoad, owner, nowMs)) work.reject();
    else this.#toLoad.append(owner, { work, body: this.#keep(body) }, this.#weightOf(work), nowMs);
  }

  readonly #mayLoad = (owner: string): boolean =>
    this.#loading.bytesOf(owner) < this.#limitBytes && this.#loading.total < LIMITS_OF_ALL * this.#limitBytes;

  /** Continues with the batches that wait for the limit, one in each turn. If the limit blocks them, the end of a load does. */
  #continue(): void {
    if (this.#isContinuing || !this.#toLoad.some(this.#mayLoad)) return;
    this.#isContinuing = true;
    this.#eventLoop.append(LOADS, this.#toLoad.size / this.#toLoad.length, this.#loadNext);
  }

  readonly #loadNext = (nowMs: number): void => {
    this.#isContinuing = false;
    const next = this.#toLoad.shift(this.#mayLoad);
    if (!next) return;
    const { item, sinceMs } = next;
    if (isInTime(item.work, nowMs - sinceMs)) this.#run(item.work, item.body, nowMs);
    this.#release(item.body);
    this.#continue();
    if (!this.#isContinuing) this.#toLoad.measure(monotonicMs());
  };

  #run(work: Work, body: Uint8Array, beganMs: number): void {
    const bytes = this.#weightOf(work);
    this.#loading.set(work, work.client.owner, bytes);
    let running = true;
    work.run(body, true, () => {
      if (!running) this.#adapt(bytes, beganMs);
      this.#loading.delete(work);
      this.#continue();
    });
    running = false;
  }

  /** Returns the bytes of body of a batch of usual hotels that costs as much. */
  #weightOf({ client: { owner }, bytes, reject }: Work): number {
    return REQUEST_BYTES + bytes * this.#sizes.weightOf(reject ? owner : pagesOf(owner));
  }

  #isFull(queue: WaitQueue<unknown>, owner: string, nowMs: number): boolean {
    return queue.isFull(owner, TARGET_WAIT_MS, nowMs) || this.#waitingBytes > MAX_WAITING_BYTES;
  }

  #keep(body: Uint8Array): Buffer {
    this.#waitingBytes += body.length;
    return pool.copy(body);
  }

  #release(kept: Buffer): void {
    this.#waitingBytes -= kept.length;
    pool.release(kept);
  }

  /** Adapts the limit to a finished load. */
  #adapt(bytes: number, beganMs: number): void {
    const nowMs = monotonicMs();
    if (nowMs - beganMs > TARGET_LOAD_MS) {
      // once for all loads that ran together
      if (beganMs < this.#loweredAtMs) return;
      this.#loweredAtMs = nowMs;
      this.#limitBytes = Math.max(MIN_LIMIT_BYTES, LOWERED_TO * this.#limitBytes);
    } else if (2 * this.#loading.total > this.#limitBytes) {
      const raisedBytes = bytes * Math.min(1, bytes / this.#limitBytes);
      this.#limitBytes = Math.min(MAX_LIMIT_BYTES, this.#limitBytes + raisedBytes);
    }
  }
}

/** Returns true if a batch that has waited this long is still to be answered; otherwise rejects it, or its client has gone. */
function isInTime(work: Work, waitedMs: number): boolean {
  if (work.client.over) return false;
  if (waitedMs <= MAX_WAIT_MS || !work.reject) return true;
  work.reject();
  return false;
}
