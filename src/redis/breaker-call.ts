import type { CircuitBreaker, OnCall } from '../lib/circuit-breaker.ts';
import { monotonicMs, pause } from '../lib/clock.ts';
import { withDeadline } from '../lib/deadline.ts';
import { isUnavailable } from './store.ts';

/**
 * Calls Redis behind a circuit breaker: no call while it is open, undefined for a failure, and every call is counted.
 */
export class BreakerCall {
  readonly #timeoutMs: number;
  readonly #onCall: OnCall;
  readonly #onError: (error: Error) => void;

  constructor(timeoutMs: number, onCall: OnCall, onError: (error: Error) => void = () => {}) {
    this.#timeoutMs = timeoutMs;
    this.#onCall = onCall;
    this.#onError = onError;
  }

  /** Returns the result of a command; undefined if it failed or the breaker of its server is open. */
  async call<T>(breaker: CircuitBreaker, command: () => Promise<T>): Promise<T | undefined> {
    if (breaker.open) return undefined;
    const startedAtMs = monotonicMs();
    let succeeded = false;
    try {
      const result = await command();
      breaker.succeeded();
      succeeded = true;
      return result;
    } catch (error) {
      if (isUnavailable(error as Error)) breaker.failed((error as Error).message);
      this.#onError(error as Error);
      return undefined;
    } finally {
      this.#onCall((monotonicMs() - startedAtMs) / 1000, succeeded);
    }
  }

  /**
   * Applies a deadline to background commands, which do not open the breaker. It replaces ioredis' commandTimeout,
   * which reports unread responses as late in a busy process.
   */
  inTime<T>(command: Promise<T>): Promise<T> {
    return withDeadline(command, 2 * this.#timeoutMs);
  }
}

/** Waits until `isReady` returns true, or for `timeoutMs`. Returns its result. */
export async function untilReady(isReady: () => boolean, timeoutMs: number): Promise<boolean> {
  const untilMs = monotonicMs() + timeoutMs;
  while (!isReady() && monotonicMs() < untilMs) await pause(10);
  return isReady();
}
