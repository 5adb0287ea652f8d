import { once } from 'node:events';
import { createServer } from 'node:net';
import { Failure } from '../lib/failure.ts';

/**
 * Throws a `Failure` if the port is in use or may not be used. Workers share their port (SO_REUSEPORT), so a second
 * instance would take part of the requests of the first one without an error. Of two that start in the same moment, the
 * admin port stops one, because it is opened before the workers start and shared by none; only if their admin ports differ,
 * too, both start.
 */
export async function requireFreePort(host: string, port: number): Promise<void> {
  const server = createServer();
  try {
    await once(server.listen({ host, port, exclusive: true }), 'listening');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Failure(
      code === 'EADDRINUSE'
        ? `Port ${port} of ${host} is in use by another process, perhaps another instance. End it, or set PORT to another one.`
        : `Port ${port} of ${host} cannot be opened: ${message}. Check HOST and PORT.`,
    );
  }
  server.close();
  await once(server, 'close');
}
