import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { closeAtEnd } from './cleanup.ts';

/** A command that Redis has received, its words separated by spaces, and the address of its connection. */
export interface RedisCommand {
  line: string;
  from: string;
}

/** Returns what Redis receives for this database from now on, in the order of its receipt. */
export async function monitorRedis(url: string): Promise<RedisCommand[]> {
  const { hostname, port, pathname } = new URL(url);
  // ioredis 6 throws if commands arrive while its monitor starts
  const socket = connect(Number(port), hostname);
  closeAtEnd('monitor of Redis', async () => {
    socket.destroy();
  });
  socket.write('MONITOR\r\n');
  const lines = createInterface(socket);
  await once(lines, 'line');
  const received: RedisCommand[] = [];
  lines.on('line', (line) => {
    const [, database, from, text] = /^\+\S+ \[(\d+) (\S+)\] (.*)$/.exec(line) ?? [];
    if (database === pathname.slice(1)) received.push({ line: text!.replaceAll('"', ''), from: from! });
  });
  return received;
}
