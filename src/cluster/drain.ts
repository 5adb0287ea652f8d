import { setTimeout as wait } from 'node:timers/promises';
import type { RequestPipeline } from '../http/request-pipeline.ts';
import type { Server } from '../http/server.ts';

/** Idle time after which a connection may be closed during shutdown. */
const IDLE_MS = 500;

/**
 * Stops accepting connections. Resolves when every request is answered and clients are idle, or after `timeoutMs`.
 */
export async function drain(pipeline: RequestPipeline, server: Server, timeoutMs: number): Promise<void> {
  pipeline.closing = true;
  server.stopAccepting();
  const untilMs = performance.now() + timeoutMs;
  let finished = pipeline.finishedCount;
  let idleSinceMs = performance.now();
  while (server.connections > 0 && performance.now() < untilMs) {
    if (pipeline.unfinished > 0 || pipeline.finishedCount !== finished) {
      finished = pipeline.finishedCount;
      idleSinceMs = performance.now();
    } else if (performance.now() - idleSinceMs > IDLE_MS) break;
    await wait(10);
  }
}
