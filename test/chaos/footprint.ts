import { readdir, readFile, readlink } from 'node:fs/promises';
import { descendantsOf } from '../../src/demo/servers/processes.ts';

/** Memory of a service's processes in bytes, and their open descriptors without those of client connections. */
export interface Footprint {
  atMs: number;
  processes: number;
  rssBytes: number;
  descriptors: number;
}

/** State of a TCP connection with both ends open, as the kernel prints it. */
const ESTABLISHED = '01';

/**
 * Measures a process and its descendants; undefined if the system is not Linux. Open connections to `port` are not counted,
 * unless the client has closed its end.
 */
export async function footprintOf(pid: number, port: number, atMs: number): Promise<Footprint | undefined> {
  if (process.platform !== 'linux') return undefined;
  const sum: Footprint = { atMs, processes: 0, rssBytes: 0, descriptors: 0 };
  const ofClients = await socketsOf(port);
  for (const each of [pid, ...(await descendantsOf(pid))]) {
    try {
      const status = await readFile(`/proc/${each}/status`, 'utf8');
      const folder = `/proc/${each}/fd`;
      const open = await Promise.all(
        (await readdir(folder)).map((number) => readlink(`${folder}/${number}`).catch(() => undefined)),
      );
      sum.descriptors += open.filter((what) => what !== undefined && !ofClients.has(what)).length;
      sum.rssBytes += 1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0);
      sum.processes++;
    } catch {
      // it has exited meanwhile
    }
  }
  return sum;
}

/** Returns the server's ends of the connections to a port by descriptor name. Columns as in proc(5). */
async function socketsOf(port: number): Promise<Set<string>> {
  const tables = await Promise.all(['tcp', 'tcp6'].map((name) => readFile(`/proc/net/${name}`, 'utf8')));
  const sockets = new Set<string>();
  for (const line of tables.join('').split('\n')) {
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
    if (state === ESTABLISHED && Number.parseInt(local?.split(':')[1] ?? '', 16) === port)
      sockets.add(`socket:[${inode}]`);
  }
  return sockets;
}
