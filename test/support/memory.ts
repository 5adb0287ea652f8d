import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { vi } from 'vitest';
import type { Service } from './service.ts';

/** Returns the resident memory of the largest of these processes in MiB. */
export async function residentMiB(pids: number[]): Promise<number> {
  const each = pids.map(async (pid) =>
    Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))![1]),
  );
  return Math.max(...(await Promise.all(each))) / 1024;
}

/** Returns the pids of all workers, because a service is ready with the first. */
export async function workersOf(service: Service, count: number): Promise<number[]> {
  const listening = () => service.logs().filter((line) => line.includes('"msg":"listening"')).length;
  await vi.waitUntil(() => listening() >= count, { timeout: 60_000 });
  return (await service.workerPids()).sort();
}

/**
 * Returns the maximum memory in MiB that was observed until the process exited; 0 if the system does not report it.
 */
export async function peakOf(pid: number): Promise<number> {
  for (let peakKiB = 0; ; await sleep(50)) {
    const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
    const [, seenKiB] = /VmHWM:\s+(\d+)/.exec(status) ?? [];
    // a zombie has no memory
    if (seenKiB === undefined) return peakKiB / 1024;
    peakKiB = Number(seenKiB);
  }
}
