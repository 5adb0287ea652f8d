import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { lacks } from '../support/needs.ts';
import { pathOf } from '../support/programs.ts';

/** True where what a terminal shows is not tested. */
export const withoutTerminal = process.platform !== 'linux' || (await lacks('script'));
/** The program that gives another a terminal: of util-linux, and on Debian 13 of bsdutils. */
const script = await pathOf('script');

/** Runs a command line of the shell under a terminal and types `keys`; all that was shown there. */
export async function onTerminal(
  command: string,
  { cwd, env, keys = '' }: { cwd: string; env: NodeJS.ProcessEnv; keys?: string },
): Promise<string> {
  const child = spawn(script!, ['-qec', command, '/dev/null'], {
    cwd,
    env: { PATH: process.env.PATH, TERM: 'xterm', SHELL: '/bin/sh', ...env },
    timeout: 60_000,
  });
  child.stdin.end(keys);
  return text(child.stdout);
}
