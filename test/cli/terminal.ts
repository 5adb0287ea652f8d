import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { findProgram } from '../../src/servers/programs.ts';

/** The program that gives another a terminal: of util-linux, so it is on every Debian; undefined elsewhere. */
export const script = process.platform === 'linux' ? await findProgram(['script']) : undefined;

/** Runs a command line of the shell under a terminal and types `keys`; all that was shown there. */
export async function onTerminal(
  command: string,
  { cwd, env, keys = '' }: { cwd: string; env: NodeJS.ProcessEnv; keys?: string },
): Promise<string> {
  const child = spawn(script!, ['-qec', command, '/dev/null'], {
    cwd,
    env: { PATH: process.env.PATH, TERM: 'xterm', SHELL: '/bin/sh', ...env },
    timeout: 20_000,
  });
  child.stdin.end(keys);
  return text(child.stdout);
}
