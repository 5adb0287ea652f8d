import type { RequestPipeline } from '../http/request-pipeline.ts';
import type { Server } from '../http/server.ts';
import { monotonicMs, pause } from '../lib/clock.ts';

const CHECK_MS = 10;
/** Checks without a request after which connections may be closed during shutdown: half a second. */
const IDLE_CHECKS = 50;

/**
 * Stops accepting connections. Resolves when every request is answered and clients are idle, or after `timeoutMs`.
 */
export async function drain(pipeline: RequestPipeline, server: Server, timeoutMs: number): Promise<void> {
  pipeline.closing = true;
  await server.stopAccepting();
  const untilMs = monotonicMs() + timeoutMs;
  let finished = pipeline.finishedCount;
  let idleChecks = 0;
  while (server.connections > 0 && monotonicMs() < untilMs && idleChecks < IDLE_CHECKS) {
    await pause(CHECK_MS);
    const isIdle = pipeline.unfinished === 0 && pipeline.finishedCount === finished;
    idleChecks = isIdle ? idleChecks + 1 : 0;
    finished = pipeline.finishedCount;
  }
}
