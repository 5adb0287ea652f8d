import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * Limit in bytes. With a limit of 1 byte, Linux writes no core file and starts no handler. With 0 it ignores the limit
 * if a handler (systemd-coredump, apport) is set.
 */
const NO_CORE_FILE = '1';

/**
 * Prevents core files of this process and of those it starts from now on: their memory holds passwords and keys of
 * clients. Returns the reason if that failed, else undefined.
 */
export async function forbidCoreDumps(): Promise<string | undefined> {
  // on other systems the limit is 0 by default
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
