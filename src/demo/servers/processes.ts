import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

interface Process {
  pid: number;
  parent: number;
  group: number;
}

/** The processes that `pid` started and that run; zombies do not count. */
export async function childrenOf(pid: number): Promise<number[]> {
  return (await processes()).filter(({ parent }) => parent === pid).map((child) => child.pid);
}

/** All that `pid` started, and what those started. */
export async function descendantsOf(pid: number): Promise<number[]> {
  const all = await processes();
  const found = [pid];
  // grows while it is walked
  for (const parent of found) for (const child of all) if (child.parent === parent) found.push(child.pid);
  return found.slice(1);
}

/** The processes of a group that run; zombies do not count, and where nobody collects them they stay for ever. */
export async function groupOf(leader: number): Promise<number[]> {
  return (await processes()).filter(({ group }) => group === leader).map(({ pid }) => pid);
}

/** Those of these processes that run. */
export async function runningOf(pids: number[]): Promise<number[]> {
  return (await processes()).map(({ pid }) => pid).filter((pid) => pids.includes(pid));
}

async function processes(): Promise<Process[]> {
  return process.platform === 'linux' ? ofProc() : ofPs();
}

async function ofProc(): Promise<Process[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')));
  return stats.filter(Boolean).flatMap((stat) => {
    // pid (name, which may hold anything) state ppid pgrp …
    const [state, parent, group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z'
      ? []
      : [{ pid: Number.parseInt(stat, 10), parent: Number(parent), group: Number(group) }];
  });
}

async function ofPs(): Promise<Process[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat=']);
  return stdout
    .trim()
    .split('\n')
    .flatMap((line) => {
      const [pid, parent, group, state] = line.trim().split(/\s+/);
      return state!.startsWith('Z')
        ? []
        : [{ pid: Number(pid), parent: Number(parent), group: Number(group) }];
    });
}
