import type { RequestPipeline } from '../http/request-pipeline.ts';
import type { Server } from '../http/server.ts';
import { monotonicMs, pause } from '../lib/clock.ts';

/** Idle time after which a connection may be closed during shutdown. */
const IDLE_MS = 500;
/** Interval of the checks, and idle time between two of them at most: after a pause, requests have yet to be read. */
const CHECK_MS = 10;
const MAX_IDLE_BETWEEN_MS = 2 * CHECK_MS;

/**
 * Stops accepting connections. Resolves when every request is answered and clients are idle, or after `timeoutMs`.
 */
export async function drain(pipeline: RequestPipeline, server: Server, timeoutMs: number): Promise<void> {
  pipeline.closing = true;
  server.stopAccepting();
  const untilMs = monotonicMs() + timeoutMs;
  let finished = pipeline.finishedCount;
  let idleMs = 0;
  let checkedAtMs = monotonicMs();
  while (server.connections > 0 && checkedAtMs < untilMs && idleMs <= IDLE_MS) {
    await pause(CHECK_MS);
    const nowMs = monotonicMs();
    const isIdle = pipeline.unfinished === 0 && pipeline.finishedCount === finished;
    idleMs = isIdle ? idleMs + Math.min(nowMs - checkedAtMs, MAX_IDLE_BETWEEN_MS) : 0;
    finished = pipeline.finishedCount;
    checkedAtMs = nowMs;
  }
}
