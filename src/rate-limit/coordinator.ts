import { monotonicMs } from '../lib/clock.ts';
import { withDeadline } from '../lib/deadline.ts';
import type { RedisStore, WindowCount } from '../redis/store.ts';
import { type LeaseGrant, type LeaseRequest, type RateLimit, SWEEP_AT } from './rate-limit.ts';

interface CountedWindow {
  limit: RateLimit;
  endsAtMs: number;
  used: number;
}

/** Timeout of Redis, half of the workers' timeout of the primary process. */
const COUNT_TIMEOUT_MS = 50;

/** Counts uses in the window of a name, in Redis. */
export type CountWindow = RedisStore['countWindow'];

/**
 * Counts the requests of each rate limit, in the primary process: those of its instance, or in Redis those of all instances.
 * While Redis does not respond, the instance counts by itself, from the last count on. A window begins with the first request after
 * a pause; under steady load the next one begins where it ends.
 */
export class RateLimitCoordinator {
  readonly #count: CountWindow | undefined;
  readonly #windows = new Map<string, CountedWindow>();
  #sweepAt = SWEEP_AT;

  constructor(count?: CountWindow) {
    this.#count = count;
  }

  get size(): number {
    return this.#windows.size;
  }

  /** Grants the requested numbers of requests, or what is left. */
  async grant(requests: LeaseRequest[]): Promise<LeaseGrant[]> {
    const count = this.#count;
    if (!count) return requests.map((request) => this.#grantAlone(request));
    return Promise.all(requests.map((request) => this.#grantShared(request, count)));
  }

  #grantAlone({ id, limit, wanted }: LeaseRequest): LeaseGrant {
    const nowMs = monotonicMs();
    const window = this.#windowOf(id, limit, nowMs);
    const granted = Math.max(0, Math.min(wanted, limit.requests - window.used));
    window.used += granted;
    const left = Math.max(0, limit.requests - window.used);
    return { id, granted, left, resetInMs: window.endsAtMs - nowMs };
  }

  async #grantShared(request: LeaseRequest, count: CountWindow): Promise<LeaseGrant> {
    const { id, limit, wanted } = request;
    // a window of another length is another window
    const counting = count(`${limit.windowMs}:${id}`, {
      limit: limit.requests,
      windowMs: limit.windowMs,
      wanted,
    });
    // a late count is used up here in place of one that Redis does not know
    const counted = await withDeadline(counting, COUNT_TIMEOUT_MS).catch(() => undefined);
    if (!counted || !isPossible(counted, wanted)) return this.#grantAlone(request);
    const nowMs = monotonicMs();
    const window = this.#windowOf(id, limit, nowMs);
    window.used = limit.requests - counted.left;
    // a hostile writer of Redis cannot lengthen a window
    const resetInMs = Math.min(counted.resetInMs, limit.windowMs);
    window.endsAtMs = nowMs + resetInMs;
    return { id, ...counted, resetInMs };
  }

  #windowOf(id: string, limit: RateLimit, nowMs: number): CountedWindow {
    let window = this.#windows.get(id);
    if (window?.limit.windowMs !== limit.windowMs) {
      if (this.#windows.size >= this.#sweepAt) this.#sweep(nowMs);
      window = { limit, endsAtMs: nowMs + limit.windowMs, used: 0 };
      this.#windows.set(id, window);
    } else if (nowMs >= window.endsAtMs) {
      const beganMs = nowMs - window.endsAtMs < limit.windowMs ? window.endsAtMs : nowMs;
      Object.assign(window, { used: 0, endsAtMs: beganMs + limit.windowMs });
    }
    window.limit = limit;
    return window;
  }

  #sweep(nowMs: number): void {
    for (const [id, { endsAtMs, limit }] of this.#windows)
      if (nowMs >= endsAtMs + limit.windowMs) this.#windows.delete(id);
    this.#sweepAt = Math.max(SWEEP_AT, 2 * this.#windows.size);
  }
}

/** Returns false for counts that the script cannot return. Some of them would make workers request leases for ever. */
function isPossible({ granted, left, resetInMs }: WindowCount, wanted: number): boolean {
  if (resetInMs < 0 || left < 0 || granted < 0 || granted > wanted) return false;
  return granted === wanted || left === 0;
}
