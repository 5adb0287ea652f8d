import { type Guarded, type Order, runGuarded } from './guarded.ts';
import { freePort } from './port.ts';

const ATTEMPTS = 5;

/**
 * Starts a server on a free loopback port and resolves when it has printed a line that matches `ready`. If another process
 * has taken the port meanwhile, the server is started again on another. Rejects with the last output of the server.
 */
export async function startOnFreePort(
  orderFor: (port: number) => Promise<Order>,
  ready: RegExp,
): Promise<Guarded & { port: number }> {
  for (let attempt = 1; ; attempt++) {
    const port = await freePort();
    const { promise: isReady, resolve } = Promise.withResolvers<'ready'>();
    const order = await orderFor(port);
    const server = await runGuarded(order, (line) => {
      if (ready.test(line)) resolve('ready');
    });
    const outcome = await Promise.race([isReady, server.exited]);
    if (outcome === 'ready') return { ...server, port };
    const portWasTaken = server.lines.some((line) => /address already in use/i.test(line));
    if (portWasTaken && attempt < ATTEMPTS) continue;
    const state = `${order.command[0]} ended with ${outcome.signal ?? `code ${outcome.code}`}`;
    throw new Error([state, ...server.lines].join('\n'));
  }
}
