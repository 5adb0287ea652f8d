import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

interface Process {
  pid: number;
  parent: number;
  group: number;
}

/** Returns the running children of `pid`, without zombies. */
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

/** Returns the running processes of a group, without zombies, which stay forever if no parent reaps them. */
export async function groupOf(leader: number): Promise<number[]> {
  return (await processes()).filter(({ group }) => group === leader).map(({ pid }) => pid);
}

/** Returns those of these processes that run. */
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
    // pid (name, which may contain anything) state ppid pgrp …
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
