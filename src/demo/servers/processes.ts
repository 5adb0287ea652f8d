import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

interface Process {
  pid: number;
  parent: number;
  group: number;
}

/** Returns all running processes, without zombies, which stay forever if no parent reaps them. */
export async function processes(): Promise<Process[]> {
  const all = await (process.platform === 'linux' ? ofProc() : ofPs());
  return all
    .filter(([state]) => !state!.startsWith('Z'))
    .map(([, parent, group, pid]) => ({ pid: Number(pid), parent: Number(parent), group: Number(group) }));
}

/** Returns state, parent, group and pid of every process. */
async function ofProc(): Promise<string[][]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const stats = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')));
  // pid (name, which may contain anything) state ppid pgrp …
  return stats
    .filter(Boolean)
    .map((stat) => [...stat.slice(stat.lastIndexOf(')') + 2).split(' ', 3), stat.split(' ', 1)[0]!]);
}

async function ofPs(): Promise<string[][]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'stat=,ppid=,pgid=,pid=']);
  return stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
}
