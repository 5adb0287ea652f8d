import { readdir, readFile } from 'node:fs/promises';
import { descendantsOf } from '../../src/servers/processes.ts';

/** What the processes of a service hold: memory in bytes, and open descriptors. */
export interface Footprint {
  atMs: number;
  processes: number;
  rssBytes: number;
  descriptors: number;
}

/** Looks at a process and all it started; undefined where the system does not tell (it is not Linux). */
export async function footprintOf(pid: number, atMs: number): Promise<Footprint | undefined> {
  if (process.platform !== 'linux') return undefined;
  const sum: Footprint = { atMs, processes: 0, rssBytes: 0, descriptors: 0 };
  for (const each of [pid, ...(await descendantsOf(pid))]) {
    try {
      const status = await readFile(`/proc/${each}/status`, 'utf8');
      sum.descriptors += (await readdir(`/proc/${each}/fd`)).length;
      sum.rssBytes += 1024 * Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0);
      sum.processes++;
    } catch {
      // it has ended in this moment
    }
  }
  return sum;
}

/** The middle one of some values; 0 of none. */
export function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
}
