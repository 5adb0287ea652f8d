import { readdir, readFile, readlink } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { vi } from 'vitest';
import { run } from './run.ts';
import type { Service } from './service.ts';

interface Process {
  pid: number;
  parent: number;
}

/** Returns all running processes, without zombies, which stay forever if no parent reaps them. */
async function processes(): Promise<Process[]> {
  const isLinux = process.platform === 'linux';
  const text = await (isLinux ? ofProc() : run('ps', ['-A', '-o', 'pid=,stat=,ppid=']));
  return text
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, state]) => !state!.startsWith('Z'))
    .map(([pid, , parent]) => ({ pid: Number(pid), parent: Number(parent) }));
}

/** Returns lines that begin with pid, state and parent. */
async function ofProc(): Promise<string> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')));
  // the name in brackets may contain anything
  return stats.map((stat) => stat.replace(/ \(.*\)/s, '')).join('');
}

/** Returns the running children of `pid`. */
export async function childrenOf(pid: number): Promise<number[]> {
  return (await processes()).filter(({ parent }) => parent === pid).map((child) => child.pid);
}

export async function descendantsOf(pid: number): Promise<number[]> {
  const all = await processes();
  const found = [pid];
  // the list grows while it is iterated
  for (const parent of found) for (const child of all) if (child.parent === parent) found.push(child.pid);
  return found.slice(1);
}

/** Returns those of these processes that run. */
export async function runningOf(pids: number[]): Promise<number[]> {
  return (await processes()).map(({ pid }) => pid).filter((pid) => pids.includes(pid));
}

/** Returns the resident memory of the largest of these processes in MiB, at present or (VmHWM) at most so far. */
export async function residentMiB(pids: number[], kind: 'VmRSS' | 'VmHWM' = 'VmRSS'): Promise<number> {
  const each = pids.map(async (pid) =>
    Number(new RegExp(`${kind}:\\s+(\\d+)`).exec(await readFile(`/proc/${pid}/status`, 'utf8'))![1]),
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

/** Returns what the open descriptors of a process refer to. Requires Linux. */
export async function descriptorsOf(pid: number): Promise<string[]> {
  const folder = `/proc/${pid}/fd`;
  const targets = await Promise.all(
    (await readdir(folder)).map((number) => readlink(`${folder}/${number}`).catch(() => undefined)),
  );
  return targets.filter((target) => target !== undefined);
}

/** State of a connection with both ends open, as the kernel prints it. */
const ESTABLISHED = '01';

/**
 * Returns the bytes that a process has not read of its connections with this port at either end; undefined without one,
 * as while it has not accepted any.
 */
export async function unreadBytes(pid: number, port: number): Promise<number | undefined> {
  const tables = await Promise.all(['tcp', 'tcp6'].map((name) => readFile(`/proc/net/${name}`, 'utf8')));
  const descriptors = await descriptorsOf(pid);
  // columns as in proc(5); address and port, and the bytes to send and to read, are pairs of hexadecimal numbers
  const unread = tables
    .flatMap((table) => table.split('\n').map((line) => line.trim().split(/\s+/)))
    .filter(
      ([, , , state, , , , , , inode]) => state === ESTABLISHED && descriptors.includes(`socket:[${inode}]`),
    )
    .map(([, ...pairs]) => pairs.map((pair) => Number.parseInt(pair.split(':')[1]!, 16)))
    .filter(([localPort, remotePort]) => localPort === port || remotePort === port)
    .map(([, , , bytes]) => bytes!);
  return unread.length === 0 ? undefined : unread.reduce((sum, bytes) => sum + bytes);
}
