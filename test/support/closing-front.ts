import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { closeAtEnd } from './cleanup.ts';

/** Shared by several fronts: the next request on a used connection finds it closed. */
export class ConnectionCloser {
  armed = false;
  closed = 0;

  /** True once after `armed`: this connection is to be closed. */
  closesNow(): boolean {
    if (!this.armed) return false;
    this.armed = false;
    this.closed++;
    return true;
  }
}

export interface ClosingFront {
  port: number;
  /** connections accepted so far */
  connections: () => number;
  close: () => Promise<void>;
}

/** A path over TCP to a port that counts connections, and resets one as a request arrives on it. */
export async function startClosingFront(target: number, closer: ConnectionCloser): Promise<ClosingFront> {
  let connections = 0;
  const server = createServer((client) => {
    connections++;
    let answered = false;
    const behind = connect(target, '127.0.0.1');
    const endBoth = () => {
      client.destroy();
      behind.destroy();
    };
    for (const socket of [client, behind]) socket.setNoDelay(true).on('error', endBoth).on('close', endBoth);
    client.on('data', (bytes) => {
      if (answered && closer.closesNow()) client.resetAndDestroy();
      else behind.write(bytes);
    });
    behind.on('data', (bytes) => {
      answered = true;
      client.write(bytes);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const open = new Set<{ destroy(): void }>();
  server.on('connection', (socket) => {
    open.add(socket);
    socket.once('close', () => open.delete(socket));
  });
  const close = async () => {
    for (const socket of open) socket.destroy();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  closeAtEnd('a proxy that closes connections', close);
  return { port: (server.address() as AddressInfo).port, connections: () => connections, close };
}
