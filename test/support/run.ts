import { type ExecFileOptions, execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** Runs a program, and returns its standard output. Rejects with what it printed if it fails. */
export async function run(
  program: string,
  args: readonly string[],
  options: ExecFileOptions = {},
): Promise<string> {
  const all = { maxBuffer: 2 ** 28, ...options, encoding: 'utf8' } as const;
  const running = promisify(execFile)(program, args, all).catch((error: Error & { stdout: string }) => {
    // it has standard error already
    error.message += `\n${error.stdout}`;
    throw error;
  });
  return (await running).stdout;
}
