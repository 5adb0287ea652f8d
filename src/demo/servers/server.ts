import { type Guarded, type Order, runGuarded } from './guarded.ts';
import { freePort } from './port.ts';

const ATTEMPTS = 5;
const LINES_SHOWN = 20;

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
    const lines: string[] = [];
    const { promise: isReady, resolve } = Promise.withResolvers<'ready'>();
    const order = await orderFor(port);
    try {
      const server = await runGuarded(order, (line) => {
        if (lines.push(line) > LINES_SHOWN) lines.shift();
        if (ready.test(line)) resolve('ready');
      });
      const outcome = await Promise.race([isReady, server.exited]);
      if (outcome === 'ready') return { ...server, port };
      throw new Error(`${order.command[0]} ended with ${outcome.signal ?? `code ${outcome.code}`}`);
    } catch (error) {
      const portWasTaken = lines.some((line) => /address already in use/i.test(line));
      if (!portWasTaken || attempt === ATTEMPTS)
        throw new Error([(error as Error).message, ...lines].join('\n'));
    }
  }
}
