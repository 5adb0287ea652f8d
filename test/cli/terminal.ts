import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { lacks } from '../support/needs.ts';
import { pathOf } from '../support/programs.ts';

/** True if the display on a terminal is not tested. */
export const withoutTerminal =
  process.platform !== 'linux' || (await lacks('script')) || !(await makesTerminals());
/** Program that gives another one a terminal: of util-linux, and on Debian 13 of bsdutils. */
const script = await pathOf('script');

/** Runs a shell command on a terminal and types `keys`. Returns everything that was displayed. */
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

/** Returns false if no pseudo-terminal can be created, as in a chroot without /dev/pts. In CI every test runs. */
async function makesTerminals(): Promise<boolean> {
  const child = spawn((await pathOf('script'))!, ['-qec', 'true', '/dev/null'], { stdio: 'ignore' });
  const [code] = await once(child, 'exit');
  if (code !== 0 && process.env.CI)
    throw new Error('In CI every test runs, but no pseudo-terminal can be made.');
  if (code !== 0) console.warn('Not tested in part: no pseudo-terminal can be made here.');
  return code === 0;
}
