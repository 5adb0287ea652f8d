import { readFile } from 'node:fs/promises';
import { vi } from 'vitest';
import type { Service } from '../support/service.ts';

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
