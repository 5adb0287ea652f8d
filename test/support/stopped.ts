import { readFile } from 'node:fs/promises';
import { expect } from 'vitest';

/** Resolves when a signal has stopped the process. */
export async function untilStopped(pid: number): Promise<void> {
  await expect.poll(() => readFile(`/proc/${pid}/stat`, 'utf8'), { interval: 1 }).toMatch(/\) T /);
}
