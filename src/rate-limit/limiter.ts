import { clearTimer, monotonicMs, onIteration, setTimer, type Timer } from '../lib/clock.ts';
import { type LeaseGrant, type LeaseRequest, type RateLimit, SWEEP_AT } from './rate-limit.ts';

export interface RateLimitDecision {
  admitted: boolean;
  /** requests left in the window, as far as this worker knows */
  remaining: number;
  resetInMs: number;
}

/** Requests of one key that a worker may admit in the present window. */
interface Lease {
  id: string;
  limit: RateLimit;
  endsAtMs: number;
  /** requests that may be admitted without the primary */
  tokens: number;
  /** requests left at the primary, as of its last message */
  left: number;
  isRequested: boolean;
  /** what the worker has granted itself, because the primary did not respond, until late grants tell what that has counted */
  share: number;
  /** requests of the present window that were admitted of such grants */
  alone: number;
  /** those of them that the primary has not counted, and that later grants pay */
  debt: number;
  /** grants that are still to come after their timeout, and the sum of those that have come */
  late: number;
  lateGranted: number;
  waiting: ((decision: RateLimitDecision) => void)[];
  deadline: Timer | undefined;
}

/** What a worker has of a new window. */
const NOTHING = { tokens: 0, share: 0, alone: 0, debt: 0 };
/** Share of a limit that the workers lease at a time, in all. */
const STEP = 0.05;
/** Timeout of the primary. After it, each worker applies an equal share of the limit. */
const LEASE_TIMEOUT_MS = 100;

/**
 * Applies rate limits in one worker. The worker leases a few requests of each limit from the primary, and requests
 * more before they run out. A client whose connections are all in one worker therefore has its whole limit, and all
 * workers together admit no more than the limit. Most decisions are synchronous; a request waits a fraction of a
 * millisecond if the lease is empty.
 */
export class RateLimiter {
  readonly #workers: number;
  readonly #send: (requests: LeaseRequest[]) => void;
  readonly #leases = new Map<string, Lease>();
  #sweepAt = SWEEP_AT;
  /** leases requested in this event-loop iteration, which are sent as one message */
  #toRequest: Lease[] = [];

  /** `send` passes requests to the primary; its grants come to `receive`. */
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
    if (nowMs >= lease.endsAtMs) {
      lease.endsAtMs = nowMs + limit.windowMs;
      Object.assign(lease, { ...NOTHING, left: limit.requests });
    }
    if (lease.tokens > 0) {
      lease.tokens--;
      if (lease.left > 0 && 2 * lease.tokens <= this.#stepOf(limit)) this.#requestLease(lease);
      return decisionOn(lease, true, nowMs);
    }
    const isSpent = lease.left === 0 && !lease.isRequested;
    if (isSpent || lease.waiting.length >= limit.requests) return decisionOn(lease, false, nowMs);
    const { promise, resolve } = Promise.withResolvers<RateLimitDecision>();
    lease.waiting.push(resolve);
    this.#requestLease(lease);
    lease.deadline ??= setTimer(() => this.#continueWithoutPrimary(lease), LEASE_TIMEOUT_MS);
    return promise;
  }

  receive(grants: LeaseGrant[]): void {
    for (const grant of grants) {
      const lease = this.#leases.get(grant.id);
      if (!lease) continue;
      if (lease.late > 0) this.#receiveLate(lease, grant);
      else {
        const paid = Math.min(lease.debt, grant.granted);
        lease.debt -= paid;
        this.#grant(lease, { ...grant, granted: grant.granted - paid });
      }
    }
  }

  /** After the last late grant the primary counts again. What the worker admitted meanwhile uses up the late grants. */
  #receiveLate(lease: Lease, { granted, left, resetInMs }: LeaseGrant): void {
    lease.lateGranted += granted;
    if (--lease.late > 0) return;
    lease.alone += Math.max(0, lease.share - lease.tokens);
    const rest = lease.tokens + lease.lateGranted - lease.share - lease.debt;
    const counted = { tokens: Math.max(0, rest), debt: Math.max(0, -rest), share: 0, lateGranted: 0 };
    Object.assign(lease, counted, { left, endsAtMs: monotonicMs() + resetInMs });
  }

  #leaseOf(id: string, limit: RateLimit, nowMs: number): Lease {
    const known = this.#leases.get(id);
    if (known) {
      if (known.limit.requests !== limit.requests || known.limit.windowMs !== limit.windowMs)
        Object.assign(known, { limit, endsAtMs: 0 });
      return known;
    }
    if (this.#leases.size >= this.#sweepAt) this.#sweep(nowMs);
    const counts = { ...NOTHING, endsAtMs: 0, left: 0, late: 0, lateGranted: 0 };
    const lease: Lease = { id, limit, ...counts, isRequested: false, waiting: [], deadline: undefined };
    this.#leases.set(id, lease);
    return lease;
  }

  #stepOf({ requests }: RateLimit): number {
    return Math.floor((STEP * requests) / this.#workers);
  }

  #requestLease(lease: Lease): void {
    if (lease.isRequested) return;
    lease.isRequested = true;
    if (this.#toRequest.push(lease) > 1) return;
    onIteration(() => {
      const requests = this.#toRequest.map((lease) => {
        const { id, limit, waiting, debt } = lease;
        return { id, limit, wanted: debt + waiting.length + Math.max(1, this.#stepOf(limit)) };
      });
      this.#toRequest = [];
      this.#send(requests);
    });
  }

  #grant(lease: Lease, { granted, left, resetInMs }: Omit<LeaseGrant, 'id'>): void {
    const nowMs = monotonicMs();
    clearTimer(lease.deadline);
    lease.deadline = undefined;
    lease.isRequested = false;
    lease.tokens += granted;
    lease.left = left;
    lease.endsAtMs = nowMs + resetInMs;
    const admitted = lease.waiting.splice(0, lease.tokens);
    lease.tokens -= admitted.length;
    for (const resolve of admitted) resolve(decisionOn(lease, true, nowMs));
    if (left === 0) {
      for (const resolve of lease.waiting.splice(0)) resolve(decisionOn(lease, false, nowMs));
    } else if (lease.waiting.length > 0) {
      this.#requestLease(lease);
      lease.deadline = setTimer(() => this.#continueWithoutPrimary(lease), LEASE_TIMEOUT_MS);
    }
  }

  /** Continues without the primary, which does not respond: admits at most an equal share in a window. */
  #continueWithoutPrimary(lease: Lease): void {
    const { requests, windowMs } = lease.limit;
    lease.late++;
    const restMs = lease.endsAtMs - monotonicMs();
    if (restMs <= 0) Object.assign(lease, NOTHING);
    const granted = Math.max(0, Math.max(1, Math.floor(requests / this.#workers)) - lease.alone);
    lease.share = granted;
    this.#grant(lease, { granted, left: 0, resetInMs: restMs > 0 ? restMs : windowMs });
  }

  #sweep(nowMs: number): void {
    for (const [id, { endsAtMs, isRequested, late, waiting }] of this.#leases)
      if (nowMs >= endsAtMs && !isRequested && late === 0 && waiting.length === 0) this.#leases.delete(id);
    this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#leases.size);
  }
}

function decisionOn(
  { limit, tokens, left, debt, endsAtMs }: Lease,
  admitted: boolean,
  nowMs: number,
): RateLimitDecision {
  // the sum of a fraction and the rest of a window may exceed the window by a rounding error
  const resetInMs = Math.min(limit.windowMs, Math.max(0, endsAtMs - nowMs));
  return { admitted, remaining: admitted ? Math.max(0, tokens + left - debt) : 0, resetInMs };
}
