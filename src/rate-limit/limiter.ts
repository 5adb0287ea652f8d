import { clearTimer, monotonicMs, onIteration, setTimer, type Timer } from '../lib/clock.ts';
import {
  type LeaseGrant,
  type LeaseRequest,
  type RateLimit,
  type RateLimitDecision,
  SWEEP_AT,
} from './rate-limit.ts';

/** Requests of one key that a worker may admit in the present window. */
interface Lease {
  id: string;
  limit: RateLimit;
  endsAtMs: number;
  /** granted requests that were not admitted yet; below 0: admitted ones that later grants pay */
  tokens: number;
  /** requests left at the primary process, as of its last message */
  left: number;
  /** limit of the request that the primary process has not answered */
  requested: RateLimit | undefined;
  /** the primary process has not responded to the request in time */
  isLate: boolean;
  waiting: ((decision: RateLimitDecision) => void)[];
  deadline: Timer | undefined;
}

/** Share of a limit that the workers lease at a time, in all. */
const STEP = 0.05;
/** Timeout of the primary process. After it, each worker admits at most an equal share of the limit until the grant arrives. */
const LEASE_TIMEOUT_MS = 100;

/**
 * Applies rate limits in one worker. The worker leases a few requests of each limit from the primary process, and requests
 * more before they run out. A client whose connections are all in one worker therefore has its whole limit.
 * While the primary process answers, all workers together admit no more than the limit. Most decisions are synchronous; a request
 * waits a fraction of a millisecond if the lease is empty.
 */
export class RateLimiter {
  readonly #workers: number;
  readonly #send: (requests: LeaseRequest[]) => void;
  readonly #leases = new Map<string, Lease>();
  #sweepAt = SWEEP_AT;
  /** leases requested in this event-loop iteration, which are sent as one message */
  #toRequest: Lease[] = [];

  /** `send` passes requests to the primary process; its grants come to `receive`. */
  constructor(workers: number, send: (requests: LeaseRequest[]) => void) {
    this.#workers = workers;
    this.#send = send;
  }

  get size(): number {
    return this.#leases.size;
  }

  /** Decides about one request of `id`. */
  take(id: string, limit: RateLimit): RateLimitDecision | Promise<RateLimitDecision> {
    const nowMs = monotonicMs();
    const lease = this.#leaseOf(id, limit, nowMs);
    if (nowMs >= lease.endsAtMs) beginWindow(lease, nowMs);
    if (lease.tokens > 0) {
      lease.tokens--;
      if (lease.left > 0 && 2 * lease.tokens <= this.#stepOf(limit)) this.#requestLease(lease);
      return decisionOn(lease, true, nowMs);
    }
    if (lease.isLate) return this.#decideAlone(lease, nowMs);
    const isSpent = lease.left === 0 && !lease.requested;
    if (isSpent || lease.waiting.length >= limit.requests) return decisionOn(lease, false, nowMs);
    const { promise, resolve } = Promise.withResolvers<RateLimitDecision>();
    lease.waiting.push(resolve);
    this.#requestLease(lease);
    lease.deadline ??= setTimer(() => this.#continueAlone(lease), LEASE_TIMEOUT_MS);
    return promise;
  }

  receive(grants: LeaseGrant[]): void {
    for (const grant of grants) {
      const lease = this.#leases.get(grant.id);
      if (lease) this.#grant(lease, grant);
    }
  }

  #leaseOf(id: string, limit: RateLimit, nowMs: number): Lease {
    const known = this.#leases.get(id);
    if (known) {
      if (known.limit.requests !== limit.requests || known.limit.windowMs !== limit.windowMs)
        Object.assign(known, { limit, endsAtMs: 0 });
      return known;
    }
    if (this.#leases.size >= this.#sweepAt) this.#sweep(nowMs);
    const counts = { endsAtMs: 0, tokens: 0, left: 0, requested: undefined, isLate: false };
    const lease: Lease = { id, limit, ...counts, waiting: [], deadline: undefined };
    this.#leases.set(id, lease);
    return lease;
  }

  #stepOf({ requests }: RateLimit): number {
    return Math.floor((STEP * requests) / this.#workers);
  }

  #requestLease(lease: Lease): void {
    if (lease.requested) return;
    lease.requested = lease.limit;
    if (this.#toRequest.push(lease) > 1) return;
    onIteration(() => {
      const requests = this.#toRequest.map((lease) => {
        const { id, limit, waiting, tokens } = lease;
        // the limit may have changed since it was queued
        lease.requested = limit;
        const unpaid = Math.max(0, -tokens);
        return { id, limit, wanted: unpaid + waiting.length + Math.max(1, this.#stepOf(limit)) };
      });
      this.#toRequest = [];
      this.#send(requests);
    });
  }

  #grant(lease: Lease, { granted, left, resetInMs }: LeaseGrant): void {
    const nowMs = monotonicMs();
    clearTimer(lease.deadline);
    lease.deadline = undefined;
    if (lease.requested === lease.limit) {
      lease.tokens += granted;
      lease.left = left;
      lease.endsAtMs = nowMs + resetInMs;
    } else if (lease.requested?.windowMs === lease.limit.windowMs) {
      // the limit has been replaced meanwhile: the primary process has counted what it granted, the rest of its message is outdated
      const counted = Math.min(granted, lease.left);
      lease.tokens += counted;
      lease.left -= counted;
    }
    lease.requested = undefined;
    lease.isLate = false;
    const admitted = lease.waiting.splice(0, Math.max(0, lease.tokens));
    lease.tokens -= admitted.length;
    for (const resolve of admitted) resolve(decisionOn(lease, true, nowMs));
    if (lease.left === 0) {
      for (const resolve of lease.waiting.splice(0)) resolve(decisionOn(lease, false, nowMs));
    } else if (lease.waiting.length > 0) {
      this.#requestLease(lease);
      lease.deadline = setTimer(() => this.#continueAlone(lease), LEASE_TIMEOUT_MS);
    }
  }

  #continueAlone(lease: Lease): void {
    const nowMs = monotonicMs();
    if (nowMs >= lease.endsAtMs) beginWindow(lease, nowMs);
    lease.isLate = true;
    lease.deadline = undefined;
    for (const resolve of lease.waiting.splice(0)) resolve(this.#decideAlone(lease, nowMs));
  }

  /**
   * Decides while the primary process does not respond: admits an equal share, and no more than was left. Later grants pay it.
   */
  #decideAlone(lease: Lease, nowMs: number): RateLimitDecision {
    const share = Math.max(1, Math.floor(lease.limit.requests / this.#workers));
    const admitted = lease.tokens > -Math.min(share, lease.left);
    if (admitted) lease.tokens--;
    return decisionOn(lease, admitted, nowMs);
  }

  #sweep(nowMs: number): void {
    for (const [id, { endsAtMs, requested, waiting }] of this.#leases)
      if (nowMs >= endsAtMs && !requested && waiting.length === 0) this.#leases.delete(id);
    this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#leases.size);
  }
}

function beginWindow(lease: Lease, nowMs: number): void {
  lease.endsAtMs = nowMs + lease.limit.windowMs;
  lease.tokens = 0;
  lease.left = lease.limit.requests;
}

function decisionOn(
  { limit, tokens, left, endsAtMs }: Lease,
  admitted: boolean,
  nowMs: number,
): RateLimitDecision {
  // the sum of a fraction and the rest of a window may exceed the window by a rounding error
  const resetInMs = Math.min(limit.windowMs, Math.max(0, endsAtMs - nowMs));
  return { admitted, remaining: admitted ? Math.max(0, tokens + left) : 0, resetInMs };
}
