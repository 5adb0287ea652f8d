import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { findProgram } from '../src/demo/servers/programs.ts';
import { descendantsOf } from '../test/support/processes.ts';

/** Processor cores of a run: a server under test never shares its core with the load generator. */
export interface Cores {
  /** command prefix that pins to the core of the servers under test; empty if pinning is impossible */
  server: string[];
  /** command prefix for all cores */
  all: string[];
  /** Moves all processes of a server to the core of the server under test, or to the others. */
  move(pid: number, to: 'server' | 'others'): Promise<void>;
  sentence: string;
}

/**
 * Pins this process and its later children to all cores except core 0, which the servers under test use. Where pinning is
 * impossible, all share all cores, and the sentence says so.
 */
export async function splitCores(): Promise<Cores> {
  const count = availableParallelism();
  const taskset = await findProgram(['taskset']);
  if (!taskset || count < 2)
    return {
      server: [],
      all: [],
      move: async () => {},
      sentence: 'Servers and load generators share all cores: rates are unreliable, CPU time is valid.',
    };
  const others = count === 2 ? '1' : `1-${count - 1}`;
  const pin = (cores: string, pid: number) =>
    execFileSync(taskset, ['-a', '-c', '-p', cores, String(pid)], { stdio: 'ignore' });
  pin(others, process.pid);
  return {
    server: [taskset, '-c', '0'],
    all: [taskset, '-c', `0-${count - 1}`],
    move: async (pid, to) => {
      for (const each of [pid, ...(await descendantsOf(pid))]) pin(to === 'server' ? '0' : others, each);
    },
    sentence: `Pinned with taskset: the server under test on core 0; load generator, Redis and PostgreSQL on core ${others}. Idle servers are there too while small requests are measured, and on core 0 while batches are.`,
  };
}
