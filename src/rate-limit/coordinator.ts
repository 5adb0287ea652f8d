import { monotonicMs } from '../lib/clock.ts';
import type { LeaseGrant, LeaseRequest, RateLimit } from './rate-limit.ts';

interface Window {
  limit: RateLimit;
  endsAtMs: number;
  used: number;
  /** the worker that asked first */
  worker: number;
  shared: boolean;
}

/** Number of windows above which ended windows are removed. */
const SWEEP_AT = 1_000;

/**
 * Counts the requests of each rate limit of an instance, in the primary. A window begins with the first request after
 * a pause; under steady load the next one begins where it ends. Requests that workers admitted on credit beyond the
 * limit are taken off the next window.
 */
export class RateLimitCoordinator {
  readonly #windows = new Map<string, Window>();
  #sweepAt = SWEEP_AT;

  get size(): number {
    return this.#windows.size;
  }

  /** Grants a worker the requested number of requests, or what is left. */
  grant(worker: number, { id, limit, taken, wanted }: LeaseRequest, nowMs = monotonicMs()): LeaseGrant {
    const window = this.#windowOf(id, limit, nowMs, worker);
    if (window.worker !== worker) window.shared = true;
    window.used += taken;
    const granted = Math.max(0, Math.min(wanted, limit.requests - window.used));
    window.used += granted;
    return {
      id,
      granted,
      left: Math.max(0, limit.requests - window.used),
      resetInMs: window.endsAtMs - nowMs,
      shared: window.shared,
    };
  }

  /** Continues a window that was counted elsewhere so far. */
  follow(worker: number, { id, limit }: LeaseRequest, left: number, resetInMs: number): void {
    const nowMs = monotonicMs();
    const window = this.#windowOf(id, limit, nowMs, worker);
    window.shared = true;
    window.used = limit.requests - left;
    window.endsAtMs = nowMs + resetInMs;
  }

  #windowOf(id: string, limit: RateLimit, nowMs: number, worker: number): Window {
    let window = this.#windows.get(id);
    if (window?.limit.windowMs !== limit.windowMs) {
      if (this.#windows.size >= this.#sweepAt) this.#sweep(nowMs);
      window = { limit, endsAtMs: nowMs + limit.windowMs, used: 0, worker, shared: false };
      this.#windows.set(id, window);
    } else if (nowMs >= window.endsAtMs) {
      const pausedMs = nowMs - window.endsAtMs;
      Object.assign(window, { worker, shared: false });
      window.used = pausedMs < limit.windowMs ? Math.max(0, window.used - window.limit.requests) : 0;
      window.endsAtMs = pausedMs < limit.windowMs ? window.endsAtMs + limit.windowMs : nowMs + limit.windowMs;
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
