import { withDeadline } from '../lib/deadline.ts';
import type { WindowCount, WindowUse } from '../redis/store.ts';
import type { RateLimitCoordinator } from './coordinator.ts';
import { type LeaseGrant, type LeaseRequest, UNKNOWN_KEYS_ID } from './rate-limit.ts';

/** Timeout of Redis, half of the workers' timeout of the primary. */
const REDIS_TIMEOUT_MS = 50;

/** Counts uses in the window of a name; undefined if Redis does not respond. */
export type CountWindow = (name: string, use: WindowUse) => Promise<WindowCount | undefined>;

/**
 * Counts the requests of each rate limit of all instances, in Redis. While Redis does not respond, the instance applies
 * the limit by itself, from the last count on.
 */
export class SharedCoordinator {
  readonly #local: RateLimitCoordinator;
  readonly #count: CountWindow;

  constructor(local: RateLimitCoordinator, count: CountWindow) {
    this.#local = local;
    this.#count = count;
  }

  /** Grants a worker the requested number of requests, or what is left. */
  grant(worker: number, requests: LeaseRequest[]): Promise<LeaseGrant[]> {
    return Promise.all(
      requests.map((request) =>
        request.id === UNKNOWN_KEYS_ID ? this.#local.grant(worker, request) : this.#grant(worker, request),
      ),
    );
  }

  async #grant(worker: number, request: LeaseRequest): Promise<LeaseGrant> {
    const { id, limit, taken, wanted } = request;
    const use = { limit: limit.requests, windowMs: limit.windowMs, taken, wanted };
    // a window of another length is another window
    const counting = this.#count(`${limit.windowMs}:${id}`, use);
    const counted = await withDeadline(counting, REDIS_TIMEOUT_MS).catch(() => undefined);
    if (!counted) return this.#local.grant(worker, request);
    this.#local.follow(worker, request, counted.left, counted.resetInMs);
    return { id, ...counted, shared: true };
  }
}
