import { readFile } from 'node:fs/promises';
import { descendantsOf } from '../test/support/processes.ts';

/** Length of a tick of /proc/PID/stat: USER_HZ is 100 on every Linux. */
const TICK_MS = 10;
const UTIME = 11;

/** Returns the CPU time (user and system) of a process and all its descendants, exited ones included, in ms. */
export async function processorTimeMs(pid: number): Promise<number> {
  let ticks = 0;
  for (const each of [pid, ...(await descendantsOf(pid))]) {
    const stat = await readFile(`/proc/${each}/stat`, 'utf8').catch(() => '');
    // pid (name, which may contain anything) state … utime stime cutime cstime
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    for (let i = 0; i < 4; i++) ticks += Number(fields[UTIME + i] ?? 0);
  }
  return ticks * TICK_MS;
}
