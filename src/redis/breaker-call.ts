import type { CircuitBreaker, OnCall } from '../lib/circuit-breaker.ts';
import { withDeadline } from '../lib/deadline.ts';
import { isUnavailable } from './store.ts';

/** How Redis is called: what is away is left alone, what cannot be had in time is nothing, and every call is told of. */
export class BreakerCall {
  readonly #timeoutMs: number;
  readonly #onCall: OnCall;

  constructor(timeoutMs: number, onCall: OnCall) {
    this.#timeoutMs = timeoutMs;
    this.#onCall = onCall;
  }

  /** What a command comes to; undefined when it failed, or the breaker of its server is open. */
  async call<T>(breaker: CircuitBreaker, command: () => Promise<T>): Promise<T | undefined> {
    if (breaker.open) return undefined;
    const startedAtMs = performance.now();
    let succeeded = false;
    try {
      const result = await command();
      breaker.succeeded();
      succeeded = true;
      return result;
    } catch (error) {
      if (isUnavailable(error as Error)) breaker.failed((error as Error).message);
      return undefined;
    } finally {
      this.#onCall((performance.now() - startedAtMs) / 1000, succeeded);
    }
  }

  /**
   * For what nobody waits for: whether Redis is away, reads find out. Not ioredis' commandTimeout, which calls answers
   * late that wait unread in a busy process.
   */
  inTime<T>(command: Promise<T>): Promise<T> {
    return withDeadline(command, 2 * this.#timeoutMs);
  }
}

/** Resolves when `isReady`, or after `timeoutMs`: whether it is. */
export async function untilReady(isReady: () => boolean, timeoutMs: number): Promise<boolean> {
  const untilMs = performance.now() + timeoutMs;
  while (!isReady() && performance.now() < untilMs) await new Promise((resolve) => setTimeout(resolve, 10));
  return isReady();
}
