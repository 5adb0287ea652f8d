import type { Call, LoadResult } from './call.ts';
import { Connection } from './connection.ts';
import { LoadCounter } from './tally.ts';

const MAX_FAULTS = 100;

/**
 * Closed loop: each connection sends its next request when it has the answer to its last, for `seconds`; then what
 * is under way is awaited. The calls are walked in order, beginning at `from`, by all connections together: a call
 * is not sent again before all others were. With `requests` it ends after that many, if it is earlier.
 */
export async function closedLoop(
  port: number,
  calls: Call[],
  options: { connections: number; seconds: number; from: number; requests?: number },
): Promise<LoadResult> {
  const counter = new LoadCounter();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  let next = options.from;
  const last = options.from + (options.requests ?? Infinity);
  let open = options.connections;
  let untilMs = 0;
  const send = (connection: Connection) => {
    connection.dueAtMs = performance.now();
    connection.send(calls[next++ % calls.length]!);
  };
  const connections = await Promise.all(
    Array.from({ length: options.connections }, () =>
      Connection.open(port, (connection, fault) => {
        const nowMs = performance.now();
        counter.add(nowMs - connection.dueAtMs, fault);
        if (nowMs < untilMs && next < last && counter.faultCount < MAX_FAULTS) send(connection);
        else if (--open === 0) end();
      }),
    ),
  );
  const beganAtMs = performance.now();
  untilMs = beganAtMs + options.seconds * 1000;
  for (const connection of connections) send(connection);
  await over;
  const seconds = (performance.now() - beganAtMs) / 1000;
  for (const connection of connections) connection.close();
  return counter.result(seconds);
}
