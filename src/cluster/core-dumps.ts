import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/**
 * Prevents core files of this process and of those it starts from now on: their memory holds passwords and keys of
 * clients. With a limit of 1 byte, Linux writes no core file and starts no handler; with 0 it ignores the limit if a handler
 * is set. On other systems the limit is 0 by default. Returns the reason if that failed, else undefined.
 */
export async function forbidCoreDumps(): Promise<string | undefined> {
  if (process.platform !== 'linux') return undefined;
  return promisify(execFile)('prlimit', ['--pid', String(process.pid), '--core=1:1']).then(
    () => undefined,
    (error: Error) => `prlimit of util-linux failed: ${error.message.trim()}`,
  );
}
