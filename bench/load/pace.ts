import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Calls `send` at a fixed rate, independent of responses, with the time at which the request was due (`performance.now()`).
 * Requests are sent up to 2 ms late.
 */
export async function pace(
  perSecond: number,
  isOver: (sent: number) => boolean,
  send: (dueMs: number) => void,
): Promise<void> {
  const beganMs = performance.now();
  for (let sent = 0; !isOver(sent); await sleep(1)) {
    const nowMs = performance.now();
    for (; !isOver(sent); sent++) {
      const dueMs = beganMs + (1_000 * sent) / perSecond;
      if (dueMs > nowMs) break;
      send(dueMs);
    }
  }
}
