import { execFileSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { findProgram } from '../src/demo/servers/programs.ts';

/** Who runs where, so that what is measured never shares its processor core with what measures it. */
export interface Cores {
  /** words before a command that put it on the core of the servers under test; none where that cannot be done */
  server: string[];
  sentence: string;
}

/**
 * Puts this process, and with it all it starts from now on, on the cores beside core 0, which is for the servers
 * under test. Where that cannot be done, all share all cores, and the sentence says so.
 */
export async function splitCores(): Promise<Cores> {
  const count = availableParallelism();
  const taskset = await findProgram(['taskset']);
  if (!taskset || count < 2)
    return {
      server: [],
      sentence: 'Servers and load generators share all cores: rates say little, processor time stays.',
    };
  const others = count === 2 ? '1' : `1-${count - 1}`;
  execFileSync(taskset, ['-a', '-c', '-p', others, String(process.pid)], { stdio: 'ignore' });
  return {
    server: [taskset, '-c', '0'],
    sentence: `Pinned with taskset: the server under test on core 0 alone; load generator, Redis and PostgreSQL on core ${others}.`,
  };
}
