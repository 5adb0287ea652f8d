import { readFile } from 'node:fs/promises';
import { descendantsOf } from '../../src/demo/servers/processes.ts';
import { descriptorsOf, tcpConnections } from '../support/tcp-connections.ts';

/** Memory of a service's processes in bytes, and their open descriptors without those of client connections. */
export interface Footprint {
  atMs: number;
  processes: number;
  rssBytes: number;
  descriptors: number;
}

/**
 * Measures a process and its descendants; undefined if the system is not Linux. Open connections to `port` are not counted,
 * unless the client has closed its end.
 */
export async function footprintOf(pid: number, port: number, atMs: number): Promise<Footprint | undefined> {
  if (process.platform !== 'linux') return undefined;
  const sum: Footprint = { atMs, processes: 0, rssBytes: 0, descriptors: 0 };
  const connections = (await tcpConnections()).filter(({ localPort }) => localPort === port);
  const ofClients = new Set(connections.map(({ descriptor }) => descriptor));
  for (const each of [pid, ...(await descendantsOf(pid))]) {
    try {
      const status = await readFile(`/proc/${each}/status`, 'utf8');
      const open = await descriptorsOf(each);
      sum.descriptors += open.filter((what) => !ofClients.has(what)).length;
      sum.rssBytes += 1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0);
      sum.processes++;
    } catch {
      // it has exited meanwhile
    }
  }
  return sum;
}
