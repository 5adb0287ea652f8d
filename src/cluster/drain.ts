import { setTimeout as wait } from 'node:timers/promises';
import type { RequestPipeline } from '../http/request-pipeline.ts';
import type { Server } from '../http/server.ts';

/** A connection on which nothing was asked for this long may be closed when the worker stops. */
const IDLE_MS = 500;

/** Accepts nothing new; resolves when what is under way is answered and nobody asks for more, or after `timeoutMs`. */
export async function drain(pipeline: RequestPipeline, server: Server, timeoutMs: number): Promise<void> {
  pipeline.closing = true;
  server.stopAccepting();
  const untilMs = performance.now() + timeoutMs;
  let answered = pipeline.answered;
  let idleSinceMs = performance.now();
  while (server.connections > 0 && performance.now() < untilMs) {
    if (pipeline.unfinished > 0 || pipeline.answered !== answered) {
      answered = pipeline.answered;
      idleSinceMs = performance.now();
    } else if (performance.now() - idleSinceMs > IDLE_MS) break;
    await wait(10);
  }
}
