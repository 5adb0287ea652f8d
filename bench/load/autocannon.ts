import autocannon from 'autocannon';
import { type Call, type LoadResult, parseCall } from './call.ts';
import { LoadCounter } from './load-counter.ts';

/** Maximum number of requests in the list, which each connection builds and sends from its beginning. */
const REQUESTS = 2_000;

/**
 * Closed loop by autocannon, to confirm our own generator. Latencies are taken from its events, because it rounds them to
 * milliseconds. It supports no expected length of a response, so bytes are compared with the shortest body.
 */
export async function autocannonLoop(
  port: number,
  calls: Call[],
  options: { connections: number; seconds: number },
): Promise<LoadResult> {
  const counter = new LoadCounter();
  const chosen = calls.slice(0, REQUESTS);
  const status = chosen[0]!.status;
  const shortest = Math.min(...chosen.map(({ bodyBytes }) => bodyBytes));
  let beganAtMs = performance.now();
  const run = autocannon({
    url: `http://127.0.0.1:${port}`,
    connections: options.connections,
    duration: options.seconds,
    requests: chosen.map(parseCall),
  });
  // before this event it builds the requests of each connection
  run.on('start', () => {
    beganAtMs = performance.now();
  });
  run.on('response', (_client: unknown, got: number, bytes: number, milliseconds: number) => {
    const fault = got !== status ? `status ${got}` : bytes < shortest ? `${bytes} bytes` : undefined;
    counter.add(milliseconds, fault);
  });
  await run;
  return counter.result((performance.now() - beganAtMs) / 1000);
}
