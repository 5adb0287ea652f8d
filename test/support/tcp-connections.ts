import { readdir, readFile, readlink } from 'node:fs/promises';

/** TCP connection of this machine with both ends open. */
interface TcpConnection {
  localPort: number;
  remotePort: number;
  /** received by the kernel, and not read by the process */
  unreadBytes: number;
  /** name in `descriptorsOf` its process */
  descriptor: string;
}

/** State of a connection with both ends open, as the kernel prints it. */
const ESTABLISHED = '01';

/** Returns the TCP connections with both ends open. Requires Linux; columns as in proc(5). */
export async function tcpConnections(): Promise<TcpConnection[]> {
  const tables = await Promise.all(['tcp', 'tcp6'].map((name) => readFile(`/proc/net/${name}`, 'utf8')));
  return tables
    .flatMap((table) => table.trim().split('\n').slice(1))
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state]) => state === ESTABLISHED)
    .map(([, local, remote, , queues, , , , , inode]) => {
      // each is two hexadecimal numbers: address and port, bytes to send and bytes to read
      const [localPort, remotePort, unreadBytes] = [local, remote, queues].map((pair) =>
        Number.parseInt(pair!.split(':')[1]!, 16),
      ) as [number, number, number];
      return { localPort, remotePort, unreadBytes, descriptor: `socket:[${inode}]` };
    });
}

/** Returns what the open descriptors of a process refer to. Requires Linux. */
export async function descriptorsOf(pid: number): Promise<string[]> {
  const folder = `/proc/${pid}/fd`;
  const targets = await Promise.all(
    (await readdir(folder)).map((number) => readlink(`${folder}/${number}`).catch(() => undefined)),
  );
  return targets.filter((target) => target !== undefined);
}

/** Returns the bytes that a process has not read of its connections with this port at either end. */
export async function unreadBytes(pid: number, port: number): Promise<number> {
  const [connections, descriptors] = await Promise.all([tcpConnections(), descriptorsOf(pid)]);
  return connections
    .filter(({ localPort, remotePort }) => localPort === port || remotePort === port)
    .filter(({ descriptor }) => descriptors.includes(descriptor))
    .reduce((sum, connection) => sum + connection.unreadBytes, 0);
}
