import { readFile } from 'node:fs/promises';

/** Resident memory of the largest of these processes in MiB, now and, with `peak`, the most it ever was. */
export async function residentMiB(pids: number[], peak = false): Promise<number> {
  const field = peak ? /VmHWM:\s+(\d+)/ : /VmRSS:\s+(\d+)/;
  const each = pids.map(async (pid) => Number(field.exec(await readFile(`/proc/${pid}/status`, 'utf8'))![1]));
  return Math.max(...(await Promise.all(each))) / 1024;
}
