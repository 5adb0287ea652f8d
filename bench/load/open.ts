import type { Call, LoadResult } from './call.ts';
import { Connection } from './connection.ts';
import { LoadCounter } from './load-counter.ts';

const CONNECTIONS = 128;
/** A request without a response this long after the end counts as a fault. */
const GRACE_MS = 3_000;

/**
 * Open loop: requests are due at a fixed rate, independent of the server. A latency counts from the time a request was
 * due, so it includes the wait for a free connection (no coordinated omission).
 */
export async function openLoop(
  port: number,
  calls: Call[],
  options: { perSecond: number; seconds: number },
): Promise<LoadResult> {
  const counter = new LoadCounter();
  const idle: Connection[] = [];
  const connections = await Promise.all(
    Array.from({ length: CONNECTIONS }, () =>
      Connection.open(port, (connection, fault) => {
        counter.add(performance.now() - connection.dueAtMs, fault);
        answered++;
        idle.push(connection);
      }),
    ),
  );
  idle.push(...connections);
  const total = Math.floor(options.perSecond * options.seconds);
  const intervalMs = 1000 / options.perSecond;
  const beganAtMs = performance.now();
  const untilMs = beganAtMs + options.seconds * 1000 + GRACE_MS;
  let sent = 0;
  let answered = 0;
  // spins, because a timer of Node would send up to a millisecond late
  while (answered < total && performance.now() < untilMs) {
    const nowMs = performance.now();
    while (sent < total && idle.length > 0) {
      const dueAtMs = beganAtMs + sent * intervalMs;
      if (dueAtMs > nowMs) break;
      const connection = idle.pop()!;
      connection.dueAtMs = dueAtMs;
      connection.send(calls[sent++ % calls.length]!);
    }
    await new Promise(setImmediate);
  }
  const seconds = (performance.now() - beganAtMs) / 1000;
  for (const connection of connections) connection.close();
  for (let i = answered; i < total; i++)
    counter.add((performance.now() - beganAtMs - i * intervalMs) | 0, undefined);
  const result = counter.result(seconds);
  if (answered < total) {
    result.faultCount += total - answered;
    result.faults.push(`${total - answered} of ${total} without a response ${GRACE_MS} ms after the end`);
  }
  return result;
}
