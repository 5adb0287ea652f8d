import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * Linux writes no core file where the limit is 1 byte, and starts no handler of core files either; a limit of 0 it
 * ignores where such a handler (systemd-coredump, apport) is set.
 */
const NO_CORE_FILE = '1';

/**
 * Keeps this process, and those that it starts from now on, from leaving core files: their memory holds the
 * passwords of the databases and the keys of clients. Returns why that could not be done; undefined: it is.
 */
export async function forbidCoreDumps(): Promise<string | undefined> {
  // elsewhere the limit is 0 unless somebody raises it
  if (process.platform !== 'linux') return undefined;
  const limit = `--core=${NO_CORE_FILE}:${NO_CORE_FILE}`;
  try {
    await promisify(execFile)('prlimit', ['--pid', String(process.pid), limit]);
    const limits = await readFile('/proc/self/limits', 'utf8');
    const [, soft, hard] = /^Max core file size +(\S+) +(\S+)/m.exec(limits) ?? [];
    return soft === NO_CORE_FILE && hard === NO_CORE_FILE
      ? undefined
      : `the limit is ${soft}, at most ${hard}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
      ? 'the program prlimit (of util-linux) is missing'
      : (error as Error).message;
  }
}
