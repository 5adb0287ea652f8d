import type { Call, LoadResult } from './call.ts';
import { Connection } from './connection.ts';
import { LoadCounter } from './load-counter.ts';

const MAX_FAULTS = 100;

/**
 * Closed loop for `seconds`: each connection sends its next request after the response to its last. Requests in flight
 * are awaited. All connections together send the calls in order from `from`, and repeat none before all were sent.
 * `requests` limits their number.
 */
export async function closedLoop(
  port: number,
  calls: Call[],
  {
    connections: count,
    seconds,
    from = 0,
    requests = Infinity,
  }: { connections: number; seconds: number; from?: number; requests?: number | undefined },
): Promise<LoadResult> {
  const counter = new LoadCounter();
  const { promise: over, resolve: end } = Promise.withResolvers<void>();
  let next = from;
  const last = from + requests;
  let open = count;
  let untilMs = 0;
  const send = (connection: Connection) => {
    connection.dueAtMs = performance.now();
    connection.send(calls[next++ % calls.length]!);
  };
  const connections = await Promise.all(
    Array.from({ length: count }, () =>
      Connection.open(port, (connection, fault) => {
        const nowMs = performance.now();
        counter.add(nowMs - connection.dueAtMs, fault);
        if (nowMs < untilMs && next < last && counter.faultCount < MAX_FAULTS) send(connection);
        else if (--open === 0) end();
      }),
    ),
  );
  const beganAtMs = performance.now();
  untilMs = beganAtMs + seconds * 1000;
  for (const connection of connections) send(connection);
  await over;
  const tookMs = performance.now() - beganAtMs;
  for (const connection of connections) connection.close();
  return counter.result(tookMs / 1000);
}
