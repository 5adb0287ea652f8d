import { BufferPool } from '../lib/buffer-pool.ts';
import { monotonicMs, onIteration } from '../lib/clock.ts';
import { WaitQueue } from '../lib/wait-queue.ts';

/** Maximum time that batches occupy one event-loop iteration. Other requests wait at most this long. */
const SLICE_MS = 5;
/** A batch whose estimated wait exceeds this is rejected immediately. */
const TARGET_WAIT_MS = 150;
/**
 * A batch that has waited this long, because earlier ones became slower, is rejected then. A late response is better
 * than a late rejection, so the bound is not lower.
 */
const MAX_WAIT_MS = 600;
/** Maximum number of bytes of bodies in one queue, whatever time they would take. */
const MAX_WAITING_BYTES = 32 * 1024 * 1024;
/** Maximum including the bodies of owners below their share, who may exceed the bound above. */
const MAX_TOTAL_BYTES = 2 * MAX_WAITING_BYTES;
/** Bytes that an owner may take before the next owner is served: a batch of 1000. */
const QUANTUM_BYTES = 16 * 1024;
/** Cost of a request besides its ids, as bytes of a body that cost as much. */
const REQUEST_BYTES = 512;
/** Initial estimate: a batch of 1000 from the local cache. */
const FIRST_MS_PER_BYTE = 0.3 / 13_000;

/** Loads that take longer than this from start to response slow each other down. */
const TARGET_LOAD_MS = 30;
/** Limit of bytes of bodies whose batches load at once: 28 KiB are two batches of 1000, or 15 of 100. */
const MIN_LIMIT_BYTES = 28 * 1024;
const FIRST_LIMIT_BYTES = 4 * MIN_LIMIT_BYTES;
const MAX_LIMIT_BYTES = 100 * MIN_LIMIT_BYTES;
const LOWERED_TO = 0.8;
/**
 * While loads are rejected, a new batch is looked up in the local cache if this share of recent batches was local.
 */
const WORTHWHILE_SHARE = 0.1;
/** Otherwise one batch in this many is looked up, as a sample. */
const TRIED_ONE_OF = 16;

/** Result of a batch that needs a load but may not wait for one. */
export const NEEDS_LOAD = Symbol('needs load');

/** A batch to be answered. */
export interface Work {
  /**
   * Answers the batch. The body is valid during the call only. `done` is called once when nothing but the response
   * bytes is held. With `mayLoad` false it may do nothing and return NEEDS_LOAD.
   */
  run(body: Uint8Array, mayLoad: boolean, done: () => void): typeof NEEDS_LOAD | undefined;
  reject(): void;
  /** the API key whose share the batch uses */
  readonly owner: string;
  /** true when the client has disconnected */
  readonly over: boolean;
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
 * iteration answers batches for 5 ms at most. The other batches are read and wait here, so a rejection or a single
 * hotel never waits longer than that. A batch that would wait over 150 ms is rejected before its body is read. The
 * delay is the signal, not a length, as in CoDel (RFC 8289). CoDel drops from the head; here an accepted batch is
 * answered, because its cost is already paid. A batch that needs Redis, PostgreSQL or compression takes part
 * of a limit until its response is made. It waits for that in a queue of its own, so locally cached batches never
 * wait for a dependency. The limit adapts to the load time (AIMD, as in TCP and in Netflix, "Performance Under Load",
 * 2018). It falls after a load of over 30 ms and rises slightly after faster ones. API keys share both queues fairly. A
 * key is rejected because of its own waiting batches, and may use everything while no other key waits. Single hotels
 * and list pages are not queued here. Rejecting one costs as much as answering it, and all loads of one iteration are
 * one query.
 */
export class Admission {
  /** batches that wait for the event loop */
  readonly #arrived = new WaitQueue<QueuedWork>(FIRST_MS_PER_BYTE, QUANTUM_BYTES);
  /** batches that wait for the limit */
  readonly #toLoad = new WaitQueue<QueuedWork>(FIRST_MS_PER_BYTE, QUANTUM_BYTES);
  #loadingBytes = 0;
  #limitBytes = FIRST_LIMIT_BYTES;
  #loweredAtMs = 0;
  /** share of recent batches that needed no load */
  #localShare = 1;
  #untried = 0;
  /** start of the first batch of this iteration */
  #tickBeganMs: number | undefined;
  #armed = false;

  get waiting(): number {
    return this.#arrived.length + this.#toLoad.length;
  }

  /** Returns true if a new batch of this owner would be rejected. Its body need not be read. */
  isFull(owner: string): boolean {
    if (this.waiting === 0) return false;
    const nowMs = monotonicMs();
    if (this.#arrived.length > 0 && isFull(this.#arrived, owner, nowMs)) return true;
    // an owner without waiting batches may read cached hotels, whatever others load
    if (!this.#toLoad.has(owner) || !isFull(this.#toLoad, owner, nowMs)) return false;
    if (this.#localShare > WORTHWHILE_SHARE) return false;
    return ++this.#untried % TRIED_ONE_OF !== 0;
  }

  /** Answers a batch now or later, or rejects it. The body is valid during the call only. */
  enter(body: Uint8Array, work: Work): void {
    if (work.over) return;
    const nowMs = monotonicMs();
    if (this.#tickBeganMs === undefined) {
      this.#tickBeganMs = nowMs;
      this.#arm();
    }
    if (this.#arrived.length === 0 && nowMs - this.#tickBeganMs < SLICE_MS) {
      this.#begin(work, body, nowMs);
      return;
    }
    if (isFull(this.#arrived, work.owner, nowMs)) work.reject();
    else this.#arrived.append(work.owner, { work, body: pool.copy(body) }, weightOf(body), nowMs);
  }

  /** Answers what may be answered now, and queues batches that need a load. */
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

  /** Continues with the queues after the event loop has read new requests. */
  #arm(): void {
    if (this.#armed) return;
    this.#armed = true;
    onIteration(this.#resume);
  }

  readonly #resume = (): void => {
    this.#armed = false;
    this.#tickBeganMs = undefined;
    if (this.waiting === 0) return;
    const untilMs = monotonicMs() + SLICE_MS;
    this.#serve(this.#toLoad, untilMs);
    this.#serve(this.#arrived, untilMs);
    // if the limit blocks the queue, the end of a load continues it
    if (this.#arrived.length > 0 || (this.#toLoad.length > 0 && this.#mayLoad)) this.#arm();
  };

  #serve(queue: WaitQueue<QueuedWork>, untilMs: number): void {
    if (queue.length === 0) return;
    let nowMs = monotonicMs();
    while (queue.length > 0 && nowMs < untilMs && (queue === this.#arrived || this.#mayLoad)) {
      const { item, sinceMs } = queue.shift()!;
      if (!item.work.over) {
        if (nowMs - sinceMs > MAX_WAIT_MS) item.work.reject();
        else if (queue === this.#arrived) this.#begin(item.work, item.body, nowMs);
        else this.#run(item.work, item.body, nowMs);
      }
      pool.release(item.body);
      nowMs = monotonicMs();
    }
    queue.measure(nowMs);
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

  /** Adapts the limit to a finished load. */
  #adapt(bytes: number, beganMs: number): void {
    const nowMs = monotonicMs();
    if (nowMs - beganMs > TARGET_LOAD_MS) {
      // once for all loads that ran together
      if (beganMs < this.#loweredAtMs) return;
      this.#loweredAtMs = nowMs;
      this.#limitBytes = Math.max(MIN_LIMIT_BYTES, LOWERED_TO * this.#limitBytes);
    } else if (2 * this.#loadingBytes > this.#limitBytes) {
      this.#limitBytes = Math.min(MAX_LIMIT_BYTES, this.#limitBytes + (bytes * bytes) / this.#limitBytes);
    }
  }
}

function isFull(queue: WaitQueue<QueuedWork>, owner: string, nowMs: number): boolean {
  return (
    queue.isFull(owner, TARGET_WAIT_MS, nowMs) ||
    queue.sizeBefore(owner) > MAX_WAITING_BYTES ||
    queue.size > MAX_TOTAL_BYTES
  );
}

function weightOf(body: Uint8Array): number {
  return REQUEST_BYTES + body.length;
}
